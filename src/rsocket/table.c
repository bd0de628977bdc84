/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct lock lock = LOCK_INITIALIZER;
static struct rsocket **slots GUARDED_BY(&lock);
static int slot_count GUARDED_BY(&lock);

/* Marks in the child of a fork the slot of an rsocket of the parent. */
static struct rsocket inherited;

void rsocket_init(struct rsocket *rs, int type, void (*destroy)(struct rsocket *rs))
{
	rs->type = type;
	rs->fd = -1;
	atomic_init(&rs->refs, 1);
	atomic_init(&rs->file_flags, 0);
	atomic_init(&rs->closed, false);
	rs->destroy = destroy;
}

static int grow(int fd) REQUIRES(&lock)
{
	int count = (fd | 63) + 1;
	struct rsocket **larger;

	if (fd < slot_count)
		return 0;
	larger = realloc(slots, (size_t)count * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	memset(larger + slot_count, 0, (size_t)(count - slot_count) * sizeof(*larger));
	slots = larger;
	slot_count = count;
	return 0;
}

int table_insert(struct rsocket *rs, int fd)
{
	int rc;

	lock_acquire(&lock);
	rc = grow(fd);
	if (!rc) {
		slots[fd] = rs;
		rs->fd = fd;
	}
	lock_release(&lock);
	return rc;
}

static struct rsocket *find(int fd) REQUIRES(&lock)
{
	struct rsocket *rs = fd >= 0 && fd < slot_count ? slots[fd] : NULL;

	return rs == &inherited ? NULL : rs;
}

struct rsocket *table_get(int fd)
{
	struct rsocket *rs;

	lock_acquire(&lock);
	rs = find(fd);
	if (rs)
		atomic_fetch_add_explicit(&rs->refs, 1, memory_order_relaxed);
	lock_release(&lock);
	return rs;
}

struct rsocket *table_remove(int fd)
{
	struct rsocket *rs;

	lock_acquire(&lock);
	rs = find(fd);
	if (rs)
		slots[fd] = NULL;
	lock_release(&lock);
	return rs;
}

void rsocket_put(struct rsocket *rs)
{
	if (atomic_fetch_sub_explicit(&rs->refs, 1, memory_order_acq_rel) == 1)
		rs->destroy(rs);
}

void rsocket_put_cancelled(void *rs)
{
	rsocket_put(rs);
}

void table_before_fork(void) ACQUIRES(&lock)
{
	lock_acquire(&lock);
}

void table_still_parent(void) RELEASES(&lock)
{
	lock_release(&lock);
}

void table_after_fork(void) RELEASES(&lock)
{
	for (int fd = 0; fd < slot_count; fd++)
		if (slots[fd])
			slots[fd] = &inherited;
	lock_release(&lock);
}

bool table_take_inherited(int fd)
{
	bool was;

	lock_acquire(&lock);
	was = fd >= 0 && fd < slot_count && slots[fd] == &inherited;
	if (was)
		slots[fd] = NULL;
	lock_release(&lock);
	return was;
}
