/*
 * Living - the objects that exist, so that a verb can refuse one that was destroyed, or whose handle the
 * program has overwritten, as the kernel does (ENOENT), instead of following a pointer that leads nowhere.
 *
 * In:  the node that each object carries, from its creation to its destruction; pointers of the program.
 * Out: whether the object behind such a pointer lives and has the handle that it was given.
 *
 * Any thread. One lock, innermost, for a few instructions; no verb of the fast path looks here. An object
 * joins once it is complete, and leaves before it is taken apart, so that of two threads that destroy it one
 * alone does. The nodes are a part of the objects: nothing is allocated, and nothing fails.
 */
#ifndef OBJECT_LIVING_H
#define OBJECT_LIVING_H

#include <stdbool.h>
#include <stdint.h>

struct living {
	struct living *next; /* in its bucket */
	uint32_t handle;     /* what the program was told; 0 for kinds without one */
};

void living_add(struct living *node, uint32_t handle);

/* `handle` is the field of the object, and is read only if the object lives. NULL: its kind has none. */
bool living_has(const struct living *node, const uint32_t *handle);
/* The same, and it is gone from here. The caller destroys it, or adds it once more. */
bool living_take(struct living *node, const uint32_t *handle);

void living_reset_after_fork(void);

#endif
