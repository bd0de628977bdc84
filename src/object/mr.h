/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MR - memory regions: memory, its key and access rights.
 *
 * In:  registrations of verbs.
 * Out: live keys (memory/key.h).
 *
 * A region's L_Key and R_Key are the same number. Any thread. Functions may sleep: registration
 * faults the pages in, deregistration waits for threads that copy.
 */
#ifndef OBJECT_MR_H
#define OBJECT_MR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "memory/dmabuf.h"
#include "memory/key.h"
#include "object/live_object.h"
#include "object/pd.h"

struct mr {
	struct ibv_mr ib;
	struct arena_key *entry;
	uint32_t index; /* of `entry` */
	uint32_t access;
	uint64_t iova;
	_Atomic uint32_t windows; /* bound windows */
	struct list unsettled;	  /* struct mr_bind: windows whose bind is ending */
	struct dm *dm;		  /* that the memory is of, or NULL */
	struct dmabuf dmabuf;	  /* that the memory is of; fd -1: none */
	bool alias;		  /* an import within the process: another struct mr owns the key */
	bool retired;		  /* an import's mr_destroy has destroyed the key */
	bool imported;		  /* a region of another process, with a key of this one */
	uint32_t epoch;		  /* key_epoch at creation: the key is of this process only */
	struct live_object live;
};

/* Binds a window to a region, as a part of the window (object/mw.h). mr_bind_lock guards it. */
struct mr_bind {
	uint32_t index;	   /* of the window's key */
	struct mr *mr;	   /* the region of the bind; NULL: not bound */
	struct mr *former; /* the region of a bind that is ending; NULL: none is */
	struct list link;  /* in former->unsettled */
};

/* Guards all binds. No thread holds it while it waits for copies. */
extern struct lock mr_bind_lock;

static inline struct mr *mr_of(struct ibv_mr *ib)
{
	return (struct mr *)ib;
}

/* False after an mr_destroy that returned -EBUSY with the key revoked. */
static inline bool mr_is_alive(const struct mr *mr)
{
	return atomic_load_explicit(&mr->entry->key, memory_order_relaxed) != 0;
}

/* Attributes of a region to create. */
struct mr_spec {
	struct pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;	 /* remote address of the first byte; 0 with IBV_ACCESS_ZERO_BASED */
	uint32_t access; /* enum ibv_access_flags, the optional ones included */
	bool null;	 /* reads return zeroes, writes are discarded; addr and length are unused */
	const void *imported; /* with `null`: memory of another process (memory/imported.h) */
	struct dm *dm;	      /* that addr lies in, or NULL */
	const struct dmabuf *dmabuf; /* that addr lies in, and that the region unmaps; or NULL */
	uint64_t offset; /* of addr in the dma-buf, which programs see as the region's addr */
};

/*
 * Creates a region and its key. 0, -EINVAL (rights, range, no adapter in this process), -EFAULT
 * (the range is not mapped, or does not permit the access), -ENOMEM; with a cause reported.
 */
int mr_create(const struct mr_spec *spec, struct mr **out);

/* Whether ibv_rereg_mr works on the region. If not, reports the cause. */
bool mr_can_change(const struct mr *mr);
/*
 * ibv_rereg_mr: `flags` (enum ibv_rereg_mr_flags, not 0) tells which of pd, addr with length, and
 * access change. The key stays the same; accesses by it meanwhile fail. Errors are those of
 * mr_create and mr_destroy; the region is unchanged then. One thread at a time for a region.
 */
int mr_change(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length, uint32_t access);

/*
 * The region of this process with this handle, which is the index of its key; NULL: there is none.
 */
struct mr *mr_find(uint32_t handle);

/*
 * Creates another struct for the same region. `pd` is the region's PD, or an import of it. 0,
 * -EINVAL or -ENOMEM. mr_destroy of the import destroys the region; the original then only takes
 * mr_unimport or mr_destroy. mr_unimport frees this struct alone; false: it is no import, and
 * stays.
 */
int mr_import(struct mr *home, struct pd *pd, struct mr **out);
bool mr_unimport(struct mr *mr);

/*
 * Revokes the key, and waits until no thread accesses the memory.
 *
 *   0        the memory is the program's own
 *   -EBUSY   windows are bound, and nothing has changed; or the key is revoked, and a process
 *            still copies, such as a stopped one (key_revoke). The program may call again.
 */
int mr_destroy(struct mr *mr);

/*
 * Begins a bind, before the window's key is published, and ends it: revokes the key. The bind is
 * over once mr_bind_is_over.
 */
void mr_bind_begin(struct mr_bind *bind, struct mr *mr) REQUIRES(mr_bind_lock);
void mr_bind_end(struct mr_bind *bind) REQUIRES(mr_bind_lock);

/* Whether no thread copies any more by the key of a bind that was ended. Never blocks. */
bool mr_bind_is_over(struct mr_bind *bind) REQUIRES(mr_bind_lock);

/* Reports the copy by the revoked key with this index that has not ended. Returns -EBUSY. */
int mr_bind_report_unfinished(uint32_t index, uint32_t qpn);

#endif
