/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/live_object.h"

#include <stddef.h>

#include "base/lock.h"

#define BUCKETS 16384 /* a power of two */

static struct lock lock = LOCK_INITIALIZER;
/*
 * Each change stores one pointer. So the child of a fork finds complete chains, even if another
 * thread of the parent was in here.
 */
static struct live_object *buckets[BUCKETS] GUARDED_BY(lock);

static struct live_object **bucket_of(const struct live_object *node) REQUIRES(lock)
{
	uint64_t mixed = (uint64_t)(uintptr_t)node * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[mixed >> 50];
}

/*
 * The pointer to the node in its chain; NULL: the node is not there. Does not dereference `node`.
 */
static struct live_object **find(const struct live_object *node) REQUIRES(lock)
{
	struct live_object **link = bucket_of(node);

	while (*link && *link != node)
		link = &(*link)->next;
	return *link ? link : NULL;
}

static bool is_whole(const struct live_object *node, const uint32_t *handle)
{
	return !handle || *handle == node->handle;
}

void live_object_add(struct live_object *node, uint32_t handle)
{
	struct live_object **bucket;

	lock_acquire(&lock);
	bucket = bucket_of(node);
	node->handle = handle;
	node->next = *bucket;
	*bucket = node;
	lock_release(&lock);
}

bool live_object_exists(const struct live_object *node, const uint32_t *handle)
{
	bool exists;

	lock_acquire(&lock);
	exists = find(node) && is_whole(node, handle);
	lock_release(&lock);
	return exists;
}

bool live_object_remove(struct live_object *node, const uint32_t *handle)
{
	struct live_object **link;
	bool removed;

	lock_acquire(&lock);
	link = find(node);
	removed = link && is_whole(node, handle);
	if (removed)
		*link = node->next;
	lock_release(&lock);
	return removed;
}

void live_object_reset_after_fork(void)
{
	lock_acquire_in_child(&lock);
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct live_object *node = buckets[i]; node; node = node->next)
			if (node->after_fork)
				node->after_fork(node);
	lock_release(&lock);
}
