/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/handles.h"

#include <stddef.h>

uint32_t handles_add(struct handles *handles, void *object, uint32_t limit)
{
	for (uint32_t i = 0; i < limit; i++) {
		uint32_t handle = atomic_fetch_add(&handles->last, 1) + 1;
		void *none = NULL;

		handle &= limit - 1;
		if (handle &&
		    atomic_compare_exchange_strong(&handles->object[handle], &none, object))
			return handle;
	}
	return 0;
}

void handles_remove(struct handles *handles, uint32_t handle)
{
	if (handle < HANDLES)
		atomic_store(&handles->object[handle], NULL);
}

void *handles_find(struct handles *handles, uint32_t handle)
{
	return handle < HANDLES ? atomic_load(&handles->object[handle]) : NULL;
}
