/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRCD - XRC domains, whose QPs deliver to any SRQ of the domain (IBA annex A14).
 *
 * In:  ibv_open_xrcd; QPs of type XRC_RECV, and XRC SRQs.
 * Out: the SRQ that a request names, for the duration of its message (xrc_select).
 *
 * Device and file (inode) identify a domain within the process. Each ibv_open_xrcd creates a struct
 * xrcd. The domain lives as long as a struct xrcd, a QP or an SRQ of it.
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
 * The number of an XRC SRQ is slot << XRC_PLACE_BITS | place, like that of a QP. So it is unique
 * among the processes of a verbatimd.
 */
#define XRC_PLACE_BITS ARENA_QP_BITS
#define XRC_PLACES     (1u << XRC_PLACE_BITS)

struct context;
struct qp;
struct xrc_domain;

struct xrcd {
	struct ibv_xrcd ib;
	struct xrc_domain *domain; /* holds a reference */
	_Atomic uint32_t users;	   /* QPs and SRQs created with it; EBUSY while not 0 */
	struct live_object live;
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *ib)
{
	return (struct xrcd *)ib;
}

/*
 * Opens a domain. `fd` -1 creates one without a name. Otherwise the file identifies it, O_CREAT
 * creates it, and with O_EXCL it must be new. 0, -EAGAIN (it does not exist), -EINVAL (it exists),
 * -ENOMEM or an error of fstat; with a cause.
 */
int xrcd_open(struct context *context, int fd, int flags, struct xrcd **out);
int xrcd_close(struct xrcd *xrcd); /* 0, -EBUSY */

/* In the child of a fork: forgets all domains, which are the parent's. */
void xrc_reset_after_fork(void);

void xrc_domain_get(struct xrc_domain *domain);
void xrc_domain_put(struct xrc_domain *domain);

/* Adds a new SRQ to the domain, with a number and a CQ. 0, or -ENOMEM (no number is free). */
int xrc_add_srq(struct xrcd *xrcd, struct srq *srq, struct cq *cq);

/*
 * srq_destroy of an SRQ of a domain. QPs in the middle of a message for it fail. Completions of its
 * receives stay in the CQ. Takes locks of QPs.
 */
int xrc_destroy_srq(struct srq *srq);

/*
 * Begins a message for this SRQ at an XRC_RECV QP, which takes receives, CQ and PD from the SRQ
 * until the next call. False: the QP's domain has no such SRQ, or a receive of another one is still
 * current. The caller holds the QP's lock.
 */
bool xrc_select(struct qp *qp, uint32_t srqn);

/*
 * Finds the number of that SRQ's PD only. False: there is no such SRQ. The caller holds the QP's
 * lock.
 */
bool xrc_find_pd(const struct qp *qp, uint32_t srqn, uint32_t *pd);

#endif
