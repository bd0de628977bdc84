/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: ibv_create_srq(3), ibv_modify_srq(3). */
#include "object/srq.h"

#include <errno.h>

#include "base/cause.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/xrcd.h"
#include "verbs/export.h"
#include "verbs/ops.h"
#include "verbs/error.h"

static struct ibv_srq *create(struct ibv_context *context, struct ibv_pd *pd, void *srq_context,
			      struct ibv_srq_attr *attr)
{
	struct srq *srq;
	int error = srq_create(context_of(context), pd_of(pd), srq_context, attr, &srq);

	if (error) {
		errno = -error;
		return NULL;
	}
	return &srq->ib;
}

/* Registers a complete SRQ among the live objects. NULL stays NULL. */
static struct ibv_srq *announce(struct ibv_srq *srq)
{
	if (srq)
		live_object_add(&srq_of(srq)->live, srq->handle);
	return srq;
}

VERBS_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
					    struct ibv_srq_init_attr *srq_init_attr)
{
	UNCANCELLED;

	return announce(create(pd->context, pd, srq_init_attr->srq_context, &srq_init_attr->attr));
}

#define XRC_NEEDS (IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)

struct ibv_srq *verbs_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	UNCANCELLED;
	enum ibv_srq_type type =
		attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
	struct ibv_srq *srq;
	uint32_t needs;

	if (attr->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1)) {
		cause_report(CAUSE_FLAGS_UNKNOWN, 0, "SRQ: comp_mask 0x%x", attr->comp_mask);
		errno = EINVAL;
		return NULL;
	}
	if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) {
		cause_report(CAUSE_UNSUPPORTED, 0, "SRQ of type %d", type);
		errno = EOPNOTSUPP;
		return NULL;
	}
	needs = type == IBV_SRQT_XRC ? XRC_NEEDS : IBV_SRQ_INIT_ATTR_PD;
	if ((attr->comp_mask & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE) != needs || !attr->pd ||
	    attr->pd->context != context ||
	    (type == IBV_SRQT_XRC && (!attr->xrcd || attr->xrcd->context != context || !attr->cq ||
				      attr->cq->context != context))) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0,
			     "SRQ: a basic one needs a PD and nothing else, one of XRC a PD, a "
			     "domain and "
			     "a CQ, of one context; comp_mask 0x%x",
			     attr->comp_mask);
		errno = EINVAL;
		return NULL;
	}
	srq = create(context, attr->pd, attr->srq_context, &attr->attr);
	if (!srq || type == IBV_SRQT_BASIC)
		return announce(srq);
	if (xrc_add_srq(xrcd_of(attr->xrcd), srq_of(srq), cq_of(attr->cq)) == 0)
		return announce(srq);
	srq_destroy(srq_of(srq));
	errno = ENOMEM;
	return NULL;
}

VERBS_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr,
				int srq_attr_mask)
{
	UNCANCELLED;

	if (!live_object_exists(&srq_of(srq)->live, &srq->handle))
		return error_unknown_object("ibv_modify_srq");
	return -srq_modify(srq_of(srq), srq_attr, srq_attr_mask);
}

VERBS_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
{
	if (!live_object_exists(&srq_of(srq)->live, &srq->handle))
		return error_unknown_object("ibv_query_srq");
	srq_query(srq_of(srq), srq_attr);
	return 0;
}

VERBS_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&srq_of(srq)->live, &srq->handle))
		return error_unknown_object("ibv_destroy_srq");
	error = srq_of(srq)->type == IBV_SRQT_XRC ? -xrc_destroy_srq(srq_of(srq))
						  : -srq_destroy(srq_of(srq));
	if (error)
		live_object_add(&srq_of(srq)->live, srq->handle);
	return error;
}

/* Only SRQs of an XRC domain have a number that a peer can name. */
int verbs_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	if (srq_of(srq)->type == IBV_SRQT_XRC) {
		*srq_num = srq_of(srq)->number;
		return 0;
	}
	cause_report(CAUSE_WRONG_TYPE, 0, "ibv_get_srq_num of a basic SRQ");
	return EOPNOTSUPP;
}

int verbs_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	cause_report(CAUSE_UNSUPPORTED, 0, "tag matching");
	*bad_op = op;
	return EOPNOTSUPP;
}
