/*
 * MW - memory windows: a part of a region, under an rkey of its own that comes and goes quickly.
 *
 * In:  bind and invalidate requests, carried out by a QP's path in their turn.
 * Out: live keys (object/key.h) with KEY_MW.
 *
 * A type 1 window gets a new rkey with each bind, a type 2 window has one whose low byte is the
 * consumer's and which is good for one QP (IBA 10.6.7.2). Any thread. Taking a key away waits for
 * those who copy, so all but mw_create may sleep for as long as a copy lasts; they may be called
 * with a QP's lock, and take none.
 */
#ifndef OBJECT_MW_H
#define OBJECT_MW_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/cause.h"
#include "base/list.h"
#include "object/pd.h"

struct mr;

struct mw {
	struct ibv_mw ib;
	uint32_t index; /* of its entry in the table of keys */
	uint32_t epoch; /* key_epoch at creation */
	/* guarded by the lock of mw.c */
	struct mr *mr;	  /* bound to it; NULL: not bound */
	uint32_t qpn;	  /* type 2, bound: its QP; else 0 */
	struct list link; /* in the list of all windows */
};

static inline struct mw *mw_of(struct ibv_mw *ib)
{
	return (struct mw *)ib;
}

/* 0, -ENOMEM or -EINVAL (no adapter in this process), with a cause reported. */
int mw_create(struct pd *pd, enum ibv_mw_type type, struct mw **out);

/* Unbinds it first. */
void mw_destroy(struct mw *mw);

/*
 * Binds for a QP and publishes `rkey`, whose upper 24 bits are the window's. A length of 0 leaves a
 * type 1 window without key. CAUSE_NONE, or why not (IBV_WC_MW_BIND_ERR): nothing has changed then.
 */
enum cause mw_bind(struct mw *mw, uint32_t pd, uint32_t qpn, uint32_t rkey,
		   const struct ibv_mw_bind_info *info);

/*
 * LOCAL_INV and SEND_WITH_INV: ends the bind of the type 2 window that has the key, if it is bound
 * to this QP. CAUSE_NONE, or CAUSE_INVALIDATE_REFUSED.
 */
enum cause mw_invalidate(uint32_t key, uint32_t pd, uint32_t qpn);

/* The QP is destroyed: ends the binds of its type 2 windows. */
void mw_unbind_qp(uint32_t qpn);

/* For the child of a fork: mr_table_reset_after_fork calls it. */
void mw_reset_after_fork(void);

#endif
