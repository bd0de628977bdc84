/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MR - memory regions: which memory may be reached, by what key, with what rights.
 *
 * In:  registrations from the front.
 * Out: live keys (memory/key.h).
 *
 * A region's L_Key and R_Key are the same number. Functions may be called by any thread and may
 * sleep: registration brings the pages in, deregistration waits for those who copy.
 */
#ifndef OBJECT_MR_H
#define OBJECT_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/dmabuf.h"
#include "memory/key.h"
#include "object/live_object.h"
#include "object/pd.h"

struct mr {
	struct ibv_mr ib;
	struct arena_key *entry;
	uint32_t index; /* of the entry */
	uint32_t access;
	uint64_t iova;
	_Atomic uint32_t windows;   /* bound to it */
	_Atomic uint32_t unsettled; /* windows that were, and by whose keys somebody may still copy: mw.h */
	struct dm *dm;		    /* if it stands on device memory */
	struct dmabuf dmabuf;	    /* fd -1: it stands on none */
	bool alias;		    /* the key is that of another struct mr */
	bool retired;		    /* its key was destroyed by way of an import */
	bool imported;		    /* a region of another process, with a key of our own */
	uint32_t epoch;		    /* key_epoch at creation: a region of before a fork has no key here */
	struct live_object live;
};

static inline struct mr *mr_of(struct ibv_mr *ib)
{
	return (struct mr *)ib;
}

/* False after an mr_destroy that failed half way. */
static inline bool mr_is_alive(const struct mr *mr)
{
	return atomic_load_explicit(&mr->entry->key, memory_order_relaxed) != 0;
}

/* What a region is to be. */
struct mr_spec {
	struct pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;   /* remote address of the first byte; 0 with IBV_ACCESS_ZERO_BASED */
	uint32_t access; /* enum ibv_access_flags, the optional ones included */
	bool null;       /* reads zeroes, swallows writes; addr and length mean nothing */
	bool imported;   /* with null: another process's memory (memory/imported.h), without addr */
	struct dm *dm;   /* addr lies in it; or NULL */
	const struct dmabuf *dmabuf; /* addr lies in it, and the region unmaps it; or NULL */
	uint64_t offset; /* of addr in the dma-buf: what programs see as the region's addr */
};

/*
 * Makes a region and its key. 0, or with a cause reported: -EINVAL (rights, range, no adapter in
 * this process), -EFAULT (the range is not mapped, or may not be used so), -ENOMEM.
 */
int mr_create(const struct mr_spec *spec, struct mr **out);

/* Whether it is a region that ibv_rereg_mr takes; if not, the cause is reported. */
bool mr_can_change(const struct mr *mr);
/*
 * ibv_rereg_mr of such a region: `flags` (enum ibv_rereg_mr_flags, not empty) says which of pd, addr with length,
 * and access are new. The key stays the same; what uses it meanwhile fails. Errors as of mr_create,
 * and -EBUSY (windows are bound to it, or as mr_destroy); the region is as it was then. Once per
 * region at a time.
 */
int mr_change(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, uint32_t access);

/* The region with this handle (the index of its key), of this process; NULL. */
struct mr *mr_find(uint32_t handle);

/*
 * Another struct for the same region, in PD `pd`, which is that of the region or an import of it: 0,
 * -EINVAL, -ENOMEM. mr_destroy on it destroys the region; then only mr_unimport or mr_destroy is left
 * to do with the first one. mr_unimport frees this struct alone; false: it was not imported, and stays.
 */
int mr_import(struct mr *home, struct pd *pd, struct mr **out);
bool mr_unimport(struct mr *mr);

/* Whose key it is: itself, or for an import the region that was made first; NULL: that is gone. */
struct mr *mr_home(struct mr *mr);

/*
 * Its key is dead and nobody touches its memory any more when it returns. 0, or -EBUSY: it has
 * windows, and nothing has changed; or a stopped process may still copy to or from it (key_revoke):
 * then the key is dead, the memory not the program's own yet, and another call goes on waiting.
 */
int mr_destroy(struct mr *mr);

#endif
