/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/counter.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/arena.h"

static_assert(COUNTERS <= ARENA_DEVICE_COUNTERS, "there is room for them");

static const struct {
	const char *name, *what;
} rows[COUNTERS] = {
#define X(name, text, what) [COUNTER_##name] = { text, what },
#include "base/counter.def"
#undef X
};

static _Atomic uint64_t without_arena[ARENA_COUNTERS + ARENA_DEVICES * ARENA_DEVICE_COUNTERS];
static _Atomic uint64_t *_Atomic counters = without_arena;

void counter_init(void *arena)
{
	atomic_store_explicit(&counters, arena ? arena_counters(arena) : without_arena,
			      memory_order_release);
}

void counter_reset_after_fork(void)
{
	counter_init(NULL);
}

static void add(uint32_t index, uint32_t times)
{
	_Atomic uint64_t *all = atomic_load_explicit(&counters, memory_order_acquire);

	atomic_fetch_add_explicit(&all[index], times, memory_order_relaxed);
}

void counter_add(enum counter counter)
{
	add(counter, 1);
}

void counter_add_many_of_device(uint32_t device, enum counter counter, uint32_t times)
{
	assert(device < ARENA_DEVICES);
	add(arena_device_counters(device) + counter, times);
}

void counter_add_of_device(uint32_t device, enum counter counter)
{
	counter_add_many_of_device(device, counter, 1);
}

uint64_t counter_sum(const _Atomic uint64_t *all, enum counter counter)
{
	uint64_t sum = atomic_load_explicit(&all[counter], memory_order_relaxed);

	for (uint32_t i = 0; i < ARENA_DEVICES; i++)
		sum += atomic_load_explicit(&all[arena_device_counters(i) + counter],
					    memory_order_relaxed);
	return sum;
}

uint64_t counter_read(enum counter counter)
{
	_Atomic uint64_t *all = atomic_load_explicit(&counters, memory_order_acquire);

	return counter_sum(all, counter);
}

const char *counter_name(enum counter counter)
{
	return rows[counter].name;
}

const char *counter_what(enum counter counter)
{
	return rows[counter].what;
}
