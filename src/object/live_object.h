/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live object - a table of the objects that exist.
 *
 * In:  the node that each object carries, from its creation to its destruction; pointers of the
 * program. Out: whether the object behind such a pointer exists and has the handle that it was
 * given.
 *
 * A verb refuses an object that was destroyed, or whose handle the program has overwritten, with
 * ENOENT, as the kernel does. Without the table the verb would follow a dangling pointer.
 *
 * Any thread. One lock, innermost, for a few instructions; no verb of the fast path looks here. The
 * creator adds an object once it is complete. The destroyer removes it first: of two threads that
 * destroy the same object, only one finds it here. The nodes are a part of the objects: nothing is
 * allocated, and nothing fails.
 */
#ifndef OBJECT_LIVE_OBJECT_H
#define OBJECT_LIVE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct live_object {
	struct live_object *next; /* in its bucket */
	uint32_t handle;	  /* what the program was told; 0 for kinds without one */
};

void live_object_add(struct live_object *node, uint32_t handle);

/* `handle` is the field of the object, and is read only if the object exists. NULL: its kind has
 * none. */
bool live_object_exists(const struct live_object *node, const uint32_t *handle);
/* Removes it if it exists. The caller then destroys it, or adds it again. */
bool live_object_remove(struct live_object *node, const uint32_t *handle);

void live_object_reset_after_fork(void);

#endif
