/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MW - memory windows: a part of a region under an rkey of its own, bound and invalidated by
 * requests.
 *
 * In:  bind and invalidate requests, which a QP's path executes in their turn.
 * Out: live keys (memory/key.h) with KEY_MW.
 *
 * A type 1 window gets a new rkey with each bind. The rkey of a type 2 window has a low byte of the
 * program's choice, and is valid for one QP (IBA 10.6.7.2).
 *
 *   bind       key       may a thread copy by it?
 *   bound      live      yes
 *   ending     revoked   one that began before the revocation (memory/hazard.h)
 *   over       revoked   no
 *
 * A stopped process may keep a bind in `ending` for ever. So only mw_destroy and mr_destroy wait,
 * with a bound. A request that has to wait fails with CAUSE_COPY_UNFINISHED, and its QP repeats it
 * after hazard_pause_ns; until then the window takes no other bind.
 *
 * Any thread, with or without a QP's lock; functions here take no QP's lock.
 */
#ifndef OBJECT_MW_H
#define OBJECT_MW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cause.h"
#include "base/list.h"
#include "object/live_object.h"
#include "object/mr.h"
#include "object/pd.h"

struct mw {
	struct ibv_mw ib;
	uint32_t epoch; /* key_epoch at creation */
	uint32_t key;	/* the first key; those of binds differ in the low byte */
	/* guarded by mr_bind_lock */
	struct mr_bind bind;
	uint32_t qpn;	  /* the QP of a bound type 2 window; else 0 */
	struct list link; /* in the list of all windows */
	struct live_object live;
};

static inline struct mw *mw_of(struct ibv_mw *ib)
{
	return (struct mw *)ib;
}

/* 0, -ENOMEM or -EINVAL (no adapter in this process), with a cause reported. */
int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out);

/*
 * Unbinds and frees the window. 0, or -EBUSY: unbound, but a copy has not ended in time
 * (key_revoke).
 */
int mw_destroy(struct mw *mw);

/*
 * Binds the window to the region for a QP of PD `pd`, and publishes the window's key with the low
 * byte of `rkey`. Keys name both (mw.key and an L_Key), because the program may have destroyed them
 * (CAUSE_MW_GONE); info->mr is not used. A length of 0 unbinds a type 1 window. CAUSE_NONE;
 * CAUSE_COPY_UNFINISHED: the last bind is still ending, repeat later; any other cause
 * (IBV_WC_MW_BIND_ERR): nothing has changed.
 */
enum cause mw_bind(uint32_t window, uint32_t region, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info);

/*
 * LOCAL_INV and SEND_WITH_INV: revokes the key of a type 2 window that is bound to this QP.
 * CAUSE_NONE: the bind is over. CAUSE_COPY_UNFINISHED: the bind is ending, and mw_is_over tells
 * when it is over. CAUSE_INVALIDATE_REFUSED: there is no such key.
 */
enum cause mw_invalidate(uint32_t key, uint32_t pd, uint32_t qpn);
bool mw_is_over(uint32_t key);
/* Reports that a thread still copies by a present or former key of the window. */
void mw_report_unfinished(uint32_t key, uint32_t qpn);

/*
 * The same for a SEND_WITH_INV that the responder drops while a thread copies by the key, so that
 * the requester retries. *revoked keeps the key of the dropped message for the responder, and is 0
 * at first. CAUSE_NONE: the bind that the first try revoked is over, even if the key was bound
 * again since.
 */
enum cause mw_invalidate_once(uint32_t key, uint32_t pd, uint32_t qpn, uint32_t *revoked);

/* For a QP that is being destroyed: unbinds its type 2 windows. */
void mw_unbind_qp(uint32_t qpn);

/* In the child of a fork: forgets all binds, which are the parent's. */
void mw_reset_after_fork(void);

#endif
