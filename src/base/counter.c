#include "transport/counter.h"

#include <stdatomic.h>

static _Atomic uint64_t counters[COUNTERS];

void counter_add(enum counter counter)
{
	atomic_fetch_add_explicit(&counters[counter], 1, memory_order_relaxed);
}

uint64_t counter_read(enum counter counter)
{
	return atomic_load_explicit(&counters[counter], memory_order_relaxed);
}
