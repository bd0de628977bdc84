/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles - small numbers by which objects of one kind are found again (ibv_import_*).
 *
 * Any thread, no lock: what a handle names stays there until its owner removes it, and that whoever
 * imports does so before is the program's business (ibv_import_pd(3)).
 */
#ifndef OBJECT_HANDLES_H
#define OBJECT_HANDLES_H

#include <stdatomic.h>
#include <stdint.h>

#define HANDLES 65536 /* 1 to HANDLES - 1 are given */

struct handles {
	void *_Atomic object[HANDLES];
	_Atomic uint32_t last;
};

/* A number below `limit`, a power of two up to HANDLES; 0: all are in use. */
uint32_t handles_add(struct handles *handles, void *object, uint32_t limit);
void handles_remove(struct handles *handles, uint32_t handle);
void *handles_find(struct handles *handles, uint32_t handle); /* or NULL */

#endif
