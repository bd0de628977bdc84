#include "object/living.h"

#include <stddef.h>

#include "base/lock.h"

#define BUCKETS 16384 /* a power of two */

static struct lock lock = LOCK_INITIALIZER;
/*
 * Each change is the store of one pointer, so the child of a fork finds whole chains, whatever another
 * thread of its parent was doing: only the lock is made anew.
 */
static struct living *buckets[BUCKETS] GUARDED_BY(lock);

static struct living **bucket_of(const struct living *node) REQUIRES(lock)
{
	uint64_t mixed = (uint64_t)(uintptr_t)node * UINT64_C(0x9e3779b97f4a7c15);

	return &buckets[mixed >> 50];
}

/* The pointer that leads to the node, which is compared and not followed; NULL: it is not there. */
static struct living **find(const struct living *node) REQUIRES(lock)
{
	struct living **link = bucket_of(node);

	while (*link && *link != node)
		link = &(*link)->next;
	return *link ? link : NULL;
}

static bool is_whole(const struct living *node, const uint32_t *handle)
{
	return !handle || *handle == node->handle;
}

void living_add(struct living *node, uint32_t handle)
{
	struct living **bucket;

	lock_acquire(&lock);
	bucket = bucket_of(node);
	node->handle = handle;
	node->next = *bucket;
	*bucket = node;
	lock_release(&lock);
}

bool living_has(const struct living *node, const uint32_t *handle)
{
	bool has;

	lock_acquire(&lock);
	has = find(node) && is_whole(node, handle);
	lock_release(&lock);
	return has;
}

bool living_take(struct living *node, const uint32_t *handle)
{
	struct living **link;
	bool taken;

	lock_acquire(&lock);
	link = find(node);
	taken = link && is_whole(node, handle);
	if (taken)
		*link = node->next;
	lock_release(&lock);
	return taken;
}

void living_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&lock);
}
