/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/imported.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/cause.h"
#include "base/uncancelled.h"
#include "memory/hazard.h"
#include "memory/imported.h"
#include "shm/xcopy.h"

/* No windows and no atomics: only the region's own process can execute them. */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_ZERO_BASED)

/* By the index of the key here. Written before the key is published, and after it is dead. */
static struct imported {
	struct link *link;	  /* with a reference */
	uint32_t key;		  /* there */
	uint32_t pd;		  /* number there */
	atomic_bool stays_moving; /* the last copy has waited for that in vain */
} regions[ARENA_KEYS];

/* -EAGAIN: the region's pages migrate now. */
static int try_copy(const struct imported *region, uint64_t address, void *flat, size_t bytes,
		    bool into)
{
	struct link *link = region->link;
	struct arena_hazard *hazard = hazard_set(link->slot, region->key);
	struct iovec here = { flat, bytes };
	uint64_t host;
	uint32_t flags;
	int error = -EFAULT;

	if (link->alive &&
	    key_check_entry(peer_arena_key(&link->arena, KEY_INDEX(region->key)), region->key,
			    region->pd, 0, address, bytes, into ? IBV_ACCESS_LOCAL_WRITE : 0, &host,
			    &flags) == KEY_OK) {
		if (flags & KEY_MOVING && link->xcopy != XCOPY_SELF)
			error = -EAGAIN;
		else if (!(flags & KEY_NULL))
			error = xcopy_move(link, into ? XCOPY_WRITE : XCOPY_READ, &here, 1, host,
					   bytes);
	}
	hazard_clear(hazard);
	return error;
}

/* The caller may hold a QP's lock: one long wait is enough. */
static int copy(uint32_t key, uint64_t address, void *flat, size_t bytes, bool into)
{
	UNCANCELLED;
	struct imported *region = &regions[KEY_INDEX(key)];
	bool waits = !atomic_load_explicit(&region->stays_moving, memory_order_relaxed);
	struct hazard_wait wait = { 0 };
	int error;

	do
		error = try_copy(region, address, flat, bytes, into);
	while (error == -EAGAIN && waits && hazard_wait(&wait));
	atomic_store_explicit(&region->stays_moving, error == -EAGAIN, memory_order_relaxed);
	return error ? -EFAULT : 0;
}

static void keep(uint32_t index, const void *region)
{
	const struct imported *from = region;

	regions[index] = (struct imported){ from->link, from->key, from->pd, false };
	link_get(from->link);
}

static void release(uint32_t index)
{
	link_put(regions[index].link);
	regions[index].link = NULL;
}

void imported_init(void)
{
	static const struct imported_ops ops = { .keep = keep, .copy = copy, .release = release };

	imported_ops = &ops;
}

int imported_import(struct link *link, uint32_t pd_number, uint32_t handle, struct pd *pd,
		    struct mr **out)
{
	const struct arena_key *entry =
		handle < ARENA_KEYS ? peer_arena_key(&link->arena, handle) : NULL;
	uint32_t key = entry ? atomic_load_explicit(&entry->key, memory_order_acquire) : 0;
	struct imported region = { .link = link, .key = key, .pd = pd_number };
	struct mr_spec spec = { .pd = pd, .null = true, .imported = &region };

	if (!key || entry->pd != pd_number ||
	    atomic_load_explicit(&entry->flags, memory_order_relaxed) & (KEY_MW | KEY_NULL)) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "memory region %u is none of that PD",
			     handle);
		return -EINVAL;
	}
	if (link->xcopy == XCOPY_NONE) {
		cause_report(CAUSE_UNSUPPORTED, 0, "the memory of process %d may not be reached",
			     link->pid);
		return -EOPNOTSUPP;
	}
	spec.iova = entry->start;
	spec.length = entry->length;
	spec.access = entry->access & ACCESS;
	return mr_create(&spec, out);
}
