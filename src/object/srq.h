/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SRQ - a receive queue that QPs share.
 */
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
	_Atomic uint32_t users; /* QPs; EBUSY */
	uint32_t number;	/* for XRC and get_srq_num */
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

/* 0, -EINVAL (limits), -ENOMEM, with a cause; writes the granted max_wr and max_sge back. */
int srq_create(struct context *context, struct pd *pd, void *srq_context, struct ibv_srq_attr *attr,
	       struct srq **srq);

/* IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT: 0, -EINVAL, -ENOMEM. All or nothing. */
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
void srq_query(struct srq *srq, struct ibv_srq_attr *attr);

/* 0, or -EBUSY while QPs use it. Waits for the acknowledgement of events that were fetched. */
int srq_destroy(struct srq *srq);

#endif
