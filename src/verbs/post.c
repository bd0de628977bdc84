/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting: ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3), ibv_bind_mw(3). */
#include "verbs/post.h"

#include <errno.h>

#include "base/cause.h"
#include "base/check.h"
#include "memory/hold.h"
#include "object/mr.h"
#include "object/qp.h"
#include "object/qp_states.h"
#include "verbs/ops.h"

int post_check_state(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	if (state >= IBV_QPS_RTS)
		return 0;
	cause_report(CAUSE_QP_STATE, qp->ib.qp_num, "a send in %s", qp_state_name(state));
	return EINVAL;
}

void post_done(struct qp *qp, uint32_t from)
{
	switch (qp_state(qp)) {
	case IBV_QPS_RTS:
		qp->path->issue(qp);
		break;
	case IBV_QPS_ERR:
	case IBV_QPS_SQE:
		qp_flush(qp);
		break;
	default: /* SQD: requests wait for RTS (IBA 10.3.1) */
		break;
	}
	if (qp->type == IBV_QPT_UD && qp->sq.issue != qp->sq.tail)
		sq_keep_data(&qp->sq, from, qp->pd->number, qp_mtu(qp));
}

/* NO_LOCK_CHECK: the builder's lock is taken on a condition */
int verbs_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad_wr) NO_LOCK_CHECK
{
	struct qp *qp = qp_of(ib);
	bool has_builders = qp->has_ex;
	uint32_t tail;
	int error;

	if (has_builders)
		lock_acquire(&qp->builder_lock);
	lock_acquire(&qp->lock);
	tail = qp->sq.tail;
	error = post_check_state(qp);
	while (!error && wr) {
		error = sq_push(&qp->sq, wr);
		if (!error)
			wr = wr->next;
	}
	if (error)
		*bad_wr = wr;
	if (qp->sq.tail != tail)
		post_done(qp, tail);
	CHECK(qp_check(qp));
	lock_release(&qp->lock);
	if (has_builders)
		lock_release(&qp->builder_lock);
	if (!qp_building)
		hold_point();
	return error;
}

static int reject_receive(const struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	if (qp->srq || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV)
		cause_report(CAUSE_RECEIVE_ON_SRQ_QP, qp->ib.qp_num, NULL);
	else
		cause_report(CAUSE_QP_STATE, qp->ib.qp_num, "a receive in RESET");
	*bad_wr = wr;
	return EINVAL;
}

int verbs_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct qp *qp = qp_of(ib);
	int error;

	if (qp->srq || qp_state(qp) == IBV_QPS_RESET || qp->type == IBV_QPT_XRC_SEND ||
	    qp->type == IBV_QPT_XRC_RECV)
		return reject_receive(qp, wr, bad_wr);
	error = rq_post(&qp->own_rq, wr, bad_wr);
	/*
	 * The state is read after the post. qp_enter_error sets ERR before it flushes, and post and
	 * flush take the RQ's lock. So either the flush finds these receives, or this thread sees
	 * ERR.
	 */
	if (qp_state(qp) == IBV_QPS_ERR) {
		lock_acquire(&qp->lock);
		if (qp_state(qp) == IBV_QPS_ERR)
			qp_flush(qp);
		lock_release(&qp->lock);
	}
	return error;
}

int verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return rq_post(&srq_of(srq)->rq, wr, bad_wr);
}

static int refuse_bind(const struct qp *qp, int error, enum cause cause, const char *why)
{
	cause_report(cause, qp->ib.qp_num, "%s", why);
	return error;
}

/* What can be seen before the bind's turn fails the call, and not the QP, as adapters do. */
static int check_bind(const struct qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	const struct mr *mr = info->mr ? mr_of(info->mr) : NULL;

	if (!mr)
		return info->addr || info->length
			       ? refuse_bind(qp, EINVAL, CAUSE_ARGUMENT_INVALID, "bind_info.mr")
			       : 0;
	if (mr->dm)
		return refuse_bind(qp, EOPNOTSUPP, CAUSE_MW_ACCESS, "device memory");
	if (mr->access & IBV_ACCESS_ZERO_BASED)
		return refuse_bind(qp, EINVAL, CAUSE_MW_ACCESS, "IBV_ACCESS_ZERO_BASED");
	if (pd_of(mw->pd)->number != pd_of(mr->ib.pd)->number)
		return refuse_bind(qp, EPERM, CAUSE_MW_PD, "the window and the region");
	return 0;
}

/* The program gets the new R_Key at once, so that it can post a SEND of it right after the bind. */
int verbs_bind_mw(struct ibv_qp *ib, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags & ~(unsigned int)IBV_SEND_INLINE,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = bind->bind_info },
	};
	int error = check_bind(qp_of(ib), mw, &bind->bind_info);

	if (!error)
		error = verbs_post_send(ib, &wr, &bad);
	if (!error)
		mw->rkey = wr.bind_mw.rkey;
	return error;
}
