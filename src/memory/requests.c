/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/requests.h"

#include <stdatomic.h>

static _Atomic uint32_t requests[REQUESTS_MAX];

bool requests_add(uint32_t key)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++) {
		uint32_t none = 0;

		if (atomic_load_explicit(&requests[i], memory_order_relaxed) == key)
			return true;
		if (atomic_compare_exchange_strong(&requests[i], &none, key))
			return true;
	}
	return false;
}

bool requests_has(uint32_t key)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++)
		if (atomic_load(&requests[i]) == key)
			return true;
	return false;
}

bool requests_any(void)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++)
		if (atomic_load_explicit(&requests[i], memory_order_relaxed))
			return true;
	return false;
}

bool requests_drop(uint32_t key)
{
	bool dropped = false;

	/* all places: two threads that add a key at once may take one each */
	for (unsigned i = 0; i < REQUESTS_MAX; i++) {
		uint32_t seen = key;

		if (atomic_load(&requests[i]) == key)
			dropped |= atomic_compare_exchange_strong(&requests[i], &seen, 0);
	}
	return dropped;
}

uint32_t requests_take(unsigned place)
{
	if (!atomic_load_explicit(&requests[place], memory_order_relaxed))
		return 0;
	return atomic_exchange(&requests[place], 0);
}

void requests_clear(void)
{
	for (unsigned i = 0; i < REQUESTS_MAX; i++)
		atomic_store(&requests[i], 0);
}
