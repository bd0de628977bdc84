/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MW - memory windows: a part of a region, under an rkey of its own that comes and goes quickly.
 *
 * In:  bind and invalidate requests, carried out by a QP's path in their turn.
 * Out: live keys (memory/key.h) with KEY_MW.
 *
 * A type 1 window gets a new rkey with each bind, a type 2 window has one whose low byte is the
 * consumer's and which is good for one QP (IBA 10.6.7.2). Any thread; all may be called with a QP's
 * lock, and take none.
 *
 * A key that is taken away is dead at once, but its bind is over only when nobody copies by it any
 * more (memory/hazard.h), which a stopped process may put off for ever. So nothing here waits for
 * that but mw_destroy and mw_settle, with a bound. A request that has to wait is carried out again
 * a while later (CAUSE_COPY_UNFINISHED, hazard_pause_ns), and until then the window takes no other
 * bind.
 */
#ifndef OBJECT_MW_H
#define OBJECT_MW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "base/list.h"
#include "object/live_object.h"
#include "object/pd.h"

struct mr;

struct mw {
	struct ibv_mw ib;
	uint32_t index; /* of its entry in the table of keys */
	uint32_t epoch; /* key_epoch at creation */
	uint32_t key;	/* the first one; those of binds differ in the low byte */
	/* guarded by the lock of mw.c */
	struct mr *mr;	  /* bound to it; NULL: not bound */
	struct mr *former; /* was bound to it, and somebody may still copy; NULL: nobody does */
	uint32_t qpn;	  /* type 2, bound: its QP; else 0 */
	struct list link; /* in the list of all windows */
	struct live_object live;
};

static inline struct mw *mw_of(struct ibv_mw *ib)
{
	return (struct mw *)ib;
}

/* 0, -ENOMEM or -EINVAL (no adapter in this process), with a cause reported. */
int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out);

/* Unbinds it first. 0, or -EBUSY: a copy has not ended, as with key_revoke; it is not bound any more. */
int mw_destroy(struct mw *mw);

/*
 * Binds for a QP and publishes the window's key with the low byte of `rkey`. A length of 0 leaves a
 * type 1 window without key. CAUSE_NONE; CAUSE_COPY_UNFINISHED: what ended the last bind is not
 * over, again later; or why not (IBV_WC_MW_BIND_ERR): nothing has changed then.
 */
enum cause mw_bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info);

/*
 * LOCAL_INV and SEND_WITH_INV: ends the bind of the type 2 window that has the key, if it is bound
 * to this QP. CAUSE_NONE; CAUSE_COPY_UNFINISHED: the key is dead, and mw_is_over tells when the
 * bind is over; or CAUSE_INVALIDATE_REFUSED.
 */
enum cause mw_invalidate(uint32_t key, uint32_t pd, uint32_t qpn);
bool mw_is_over(uint32_t key);

/*
 * The same for a message that counts as one that has not come while somebody copies by the key: so its requester
 * tries again, and nobody else waits. *revoked is the responder's, 0 at first: the key of the message that was
 * refused for that. CAUSE_NONE: the key is dead now, also if it was bound once more meanwhile.
 */
enum cause mw_invalidate_once(uint32_t key, uint32_t pd, uint32_t qpn, uint32_t *revoked);

struct wqe;

/* A BIND_MW is posted: notes what it is to bind, of which nothing is looked at again but by its key. */
void mw_prepare(struct wqe *wqe, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info);
/*
 * Carries out BIND_MW or LOCAL_INV of a QP of PD `pd`. Results as of mw_bind, and CAUSE_MW_GONE;
 * CAUSE_COPY_UNFINISHED: to be called again for the same request. What waits for long (`looks` in
 * vain) is reported, once.
 */
enum cause mw_execute(struct wqe *wqe, uint32_t pd, uint32_t qpn, uint32_t looks);

/* The QP is destroyed: ends the binds of its type 2 windows. */
void mw_unbind_qp(uint32_t qpn);

/*
 * Ends the region's key, so that no window is bound to it from now on. False: one is, and nothing has
 * changed.
 */
bool mw_end_region(struct mr *mr);
/* Waits until nobody copies by the keys of windows that were bound to the region. 0, or -EBUSY as mw_destroy. */
int mw_settle(struct mr *mr);

/* For the child of a fork: no window is bound there. */
void mw_reset_after_fork(void);

#endif
