/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles - small numbers for objects of one kind, by which ibv_import_* finds them.
 *
 * Any thread, no lock. What keeps an object that was found is up to the caller. The program makes
 * sure that no thread imports an object that another destroys (ibv_import_pd(3)).
 */
#ifndef OBJECT_HANDLES_H
#define OBJECT_HANDLES_H

#include <stdatomic.h>
#include <stdint.h>

#define HANDLES 65536 /* handles are 1..HANDLES - 1 */

struct handles {
	void *_Atomic object[HANDLES];
	_Atomic uint32_t last;
};

/*
 * Adds an object. Returns a handle below `limit`, a power of two up to HANDLES; 0: all are in use.
 */
uint32_t handles_add(struct handles *handles, void *object, uint32_t limit);
void handles_remove(struct handles *handles, uint32_t handle);
void *handles_find(struct handles *handles, uint32_t handle); /* or NULL */

#endif
