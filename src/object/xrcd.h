/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRCD - XRC domains: SRQs that any QP of the domain delivers to (IBA A14).
 *
 * In:  ibv_open_xrcd; QPs of type XRC_RECV, and XRC SRQs.
 * Out: the SRQ that a request names, for as long as its message lasts (xrc_select).
 *
 * A domain is known by the file that it was opened with, on one device, in this process; each open of
 * it is a struct xrcd. The domain lives as long as an open, a QP or an SRQ of it does.
 */
#ifndef OBJECT_XRCD_H
#define OBJECT_XRCD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "object/cq.h"
#include "object/live_object.h"
#include "object/srq.h"

/*
 * The number of an XRC SRQ is slot << XRC_PLACE_BITS | place, as that of a QP: so no two processes of a
 * verbatimd have the same, and a request for another process's SRQ is not taken for one's own.
 */
#define XRC_PLACE_BITS ARENA_QP_BITS
#define XRC_PLACES     (1u << XRC_PLACE_BITS)

struct context;
struct qp;
struct xrc_domain;

struct xrcd {
	struct ibv_xrcd ib;
	struct xrc_domain *domain; /* with a reference */
	_Atomic uint32_t users;	   /* QPs and SRQs that were made with it; EBUSY */
	struct live_object live;
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *ib)
{
	return (struct xrcd *)ib;
}

/*
 * fd -1: a new domain without a name. Else that of the file, which is made with O_CREAT and must be
 * new with O_EXCL as well. 0, -EAGAIN (there is none), -EINVAL (there is one already), -EBADF...,
 * -ENOMEM; with a cause.
 */
int xrcd_open(struct context *context, int fd, int flags, struct xrcd **out);
int xrcd_close(struct xrcd *xrcd); /* 0, -EBUSY */

/* For the child of a fork: what was there is the parent's. */
void xrc_reset_after_fork(void);

void xrc_domain_get(struct xrc_domain *domain);
void xrc_domain_put(struct xrc_domain *domain);

/* Makes a new SRQ one of the domain, with a number and a CQ. 0, or -ENOMEM (no number). */
int xrc_add_srq(struct xrcd *xrcd, struct srq *srq, struct cq *cq);

/*
 * It is destroyed: no QP finds it any more, and those that are in the middle of a message for it fail.
 * Completions of its receives stay in the CQ. Takes locks of QPs.
 */
void xrc_remove_srq(struct srq *srq);

/*
 * A message for this SRQ begins at the XRC_RECV QP: until the next one that is where its receives,
 * completions and protection domain are. False: there is no such SRQ in the QP's domain, or a receive
 * of another one is still in use. Holds the QP's lock.
 */
bool xrc_select(struct qp *qp, uint32_t srqn);

/* The number of that SRQ's protection domain alone. The same for false, and for the lock. */
bool xrc_find_pd(const struct qp *qp, uint32_t srqn, uint32_t *pd);

#endif
