/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Harness - an arena in plain memory, so that keys and hazards work without an adapter.
 */
#ifndef TESTS_UNIT_MEMORY_HARNESS_H
#define TESTS_UNIT_MEMORY_HARNESS_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/key_revoke.h"

#define HARNESS_SLOT 5

/* Pages that are not touched take no memory, as in the real one. */
static inline void *harness_arena(void)
{
	void *arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (arena == MAP_FAILED)
		abort();
	hazard_init(arena, HARNESS_SLOT);
	key_table_init(arena);
	return arena;
}

#endif
