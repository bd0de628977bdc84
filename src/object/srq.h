/* SPDX-License-Identifier: BSD-2-Clause */
/* SRQ - shared receive queues: a receive queue of several QPs. Any thread. */
#ifndef OBJECT_SRQ_H
#define OBJECT_SRQ_H

#include <infiniband/verbs.h>

#include "object/live_object.h"
#include "object/pd.h"
#include "object/rq.h"

struct context;
struct cq;
struct xrcd;
struct xrc_domain;

struct srq {
	struct ibv_srq ib;
	struct rq rq;
	struct pd *pd;
	_Atomic uint32_t users;	 /* QPs; EBUSY while not 0 */
	uint32_t number;	 /* for XRC and get_srq_num */
	uint32_t async_reported; /* guarded by the context's async lock */
	enum ibv_srq_type type;
	/* of an XRC SRQ (object/xrcd.h) */
	struct xrcd *xrcd;
	struct xrc_domain *domain;
	struct cq *cq;
	struct live_object live;
};

static inline struct srq *srq_of(struct ibv_srq *ib)
{
	return (struct srq *)ib;
}

/*
 * Creates an SRQ, and writes the granted max_wr and max_sge to `attr`. 0, -EINVAL (limits),
 * -ENOMEM.
 */
int srq_create(struct context *context, struct pd *pd, void *srq_context, struct ibv_srq_attr *attr,
	       struct srq **srq);

/* Changes IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT, all or nothing. 0, -EINVAL, -ENOMEM. */
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
void srq_query(struct srq *srq, struct ibv_srq_attr *attr);

/* Fewer receives raise an event; 0: none does. Without lock: it may change. */
static inline uint32_t srq_limit(const struct srq *srq)
{
	return atomic_load_explicit(&srq->rq.limit, memory_order_relaxed);
}

/* As rq_take; raises the limit event. False: none is posted. */
bool srq_take(struct srq *srq, struct receive *out);

/*
 * 0, or -EBUSY while QPs use the SRQ. Waits until fetched events are acknowledged. Of XRC, see
 * xrc_destroy_srq.
 */
int srq_destroy(struct srq *srq);

#endif
