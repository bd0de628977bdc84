/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live object - a table of the objects that exist.
 *
 * In:  the node in each object, from creation to destruction; pointers of the program.
 * Out: whether a pointer is an object that exists, with the handle that it got.
 *
 * A verb returns ENOENT for an object that was destroyed, or whose handle the program has
 * overwritten, as the kernel does. Without the table the verb would follow a dangling pointer.
 *
 * A thread adds an object once it is complete, and removes it before it destroys it. Of two threads
 * that destroy the same object, only one finds it here. Nothing is allocated, so nothing fails.
 *
 * Any thread. One lock, innermost, held for a few instructions. Data path verbs do not use the
 * table.
 */
#ifndef OBJECT_LIVE_OBJECT_H
#define OBJECT_LIVE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

struct live_object {
	struct live_object *next; /* in the bucket */
	uint32_t handle;	  /* of the object at creation; 0 for kinds without one */
	/*
	 * NULL, or called for the object's copy in the child of a fork: threads that the child does
	 * not have may have held its locks, and its events are those of the parent. Neither
	 * allocates nor frees.
	 */
	void (*after_fork)(struct live_object *node);
};

void live_object_add(struct live_object *node, uint32_t handle);

/*
 * Whether the object exists, with its original handle. `handle` points into the object, and is read
 * only if the object exists; NULL: its kind has none.
 */
bool live_object_exists(const struct live_object *node, const uint32_t *handle);
/* Removes the object if it exists. The caller then destroys it, or adds it again. */
bool live_object_remove(struct live_object *node, const uint32_t *handle);

/* In the child's only thread. Calls `after_fork` of all objects. */
void live_object_reset_after_fork(void);

#endif
