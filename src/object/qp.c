/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp.h"

#include "base/check.h"
#include "object/context.h"

_Thread_local unsigned qp_building __attribute__((tls_model("initial-exec")));

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	struct arena_qp *entry = qp->entry;

	entry->pd = qp->remote_pd;
	entry->access = qp->attr.qp_access_flags;
	entry->dest_qpn = qp->attr.dest_qp_num;
	entry->rq_psn = qp->attr.rq_psn;
	entry->sq_psn = qp->attr.sq_psn;
	entry->device = qp->context->device_index;
	/* Barrier QPENTRY: peers load the word first. */
	atomic_store_explicit(&entry->word, ARENA_QP_WORD(qp->type, state), memory_order_release);
	atomic_store_explicit(&qp->state, (uint8_t)state, memory_order_release);
	qp_fence_source();
}

static void raise_at(struct qp *handle, enum ibv_event_type type)
{
	struct ibv_async_event event = { .element.qp = &handle->ib, .event_type = type };

	context_raise(handle->context, &event, &handle->async_reported);
}

void qp_raise(struct qp *qp, enum ibv_event_type type) REQUIRES(qp->lock)
{
	struct list *pos;

	if (qp->type != IBV_QPT_XRC_RECV) {
		raise_at(qp, type);
		return;
	}
	if (qp->xrcd) /* else the program has closed this handle */
		raise_at(qp, type);
	list_for_each(pos, &qp->opened)
		raise_at(list_entry(pos, struct qp, link), type);
}

void qp_count(const struct qp *qp, enum counter counter)
{
	counter_add_of_device(qp->context->device_index, counter);
}

void qp_count_many(const struct qp *qp, enum counter counter, uint32_t *count)
{
	if (*count)
		counter_add_many_of_device(qp->context->device_index, counter, *count);
	*count = 0;
}

/* Completes the request at the head, if it is signaled or failed, and moves the head on. */
static void retire_head(struct qp *qp)
{
	struct sq *sq = &qp->sq;
	struct wqe *wqe = sq_wqe(sq, sq->head);

	sq_drop(sq, wqe);
	if (wqe->flags & IBV_SEND_SIGNALED || wqe->status != IBV_WC_SUCCESS) {
		struct cqe cqe = {
			.wr_id = wqe->wr_id,
			.qp = qp,
			.sq = sq,
			.sq_seq = sq->head,
			.kind = CQE_SEND,
			.status = wqe->status,
			.opcode = opcodes[wqe->opcode].completion,
			.vendor_err = wqe->vendor_err,
			.byte_len = wqe->length,
			.qp_num = qp->ib.qp_num,
		};

		cq_push(qp->send_cq, &cqe, false);
	}
	/* The request may have failed before it was issued. */
	if (sq->issue == sq->head)
		sq->issue++;
	sq->head++;
}

static void flush_sends(struct qp *qp) REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;
	bool failed = false;

	while (sq->head != sq->tail) {
		struct wqe *wqe = sq_wqe(sq, sq->head);

		/* No request after a failed one succeeds, even if it was executed (IBA 10.8.5). */
		if (wqe->state != WQE_DONE || (failed && wqe->status == IBV_WC_SUCCESS))
			wqe_finish(wqe, IBV_WC_WR_FLUSH_ERR, CAUSE_FLUSHED);
		failed |= wqe->status != IBV_WC_SUCCESS;
		retire_head(qp);
	}
}

static void report_flush(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->flush_reported)
		return;
	qp->flush_reported = true;
	if (qp->failure)
		cause_report(CAUSE_FLUSHED, qp->ib.qp_num, "%u sends at once, because of %s",
			     qp->sq.tail - qp->sq.head, cause_name(qp->failure));
	else /* by ibv_modify_qp */
		cause_note(CAUSE_FLUSHED, qp->ib.qp_num,
			   "%u sends at once, because of ibv_modify_qp", qp->sq.tail - qp->sq.head);
}

static void flush_receives(struct qp *qp) REQUIRES(qp->lock)
{
	struct receive receive;

	while (rq_take(&qp->own_rq, &receive)) {
		struct cqe cqe = {
			.wr_id = receive.wr_id,
			.qp = qp,
			.rq = &qp->own_rq,
			.kind = CQE_RECEIVE,
			.status = IBV_WC_WR_FLUSH_ERR,
			.vendor_err = CAUSE_FLUSHED,
			.qp_num = qp->ib.qp_num,
		};

		report_flush(qp);
		cq_push(qp->recv_cq, &cqe, false);
	}
}

void qp_flush(struct qp *qp)
{
	if (qp->sq.head != qp->sq.tail) {
		report_flush(qp);
		flush_sends(qp);
	}
	if (qp_state(qp) == IBV_QPS_ERR)
		flush_receives(qp);
}

/*
 * Sets the state first: when a thread sees a completion with error, the QP is in ERR for it and for
 * the peers (CONTRACT 15).
 */
void qp_enter_error(struct qp *qp, enum cause cause)
{
	if (qp_state(qp) == IBV_QPS_RESET || qp_state(qp) == IBV_QPS_ERR) {
		if (qp_state(qp) == IBV_QPS_ERR)
			qp_flush(qp);
		return;
	}
	qp->failure = cause;
	qp_set_state(qp, IBV_QPS_ERR);
	qp->path->quiesce(qp);
	qp_flush(qp);
	if (!qp->srq || qp->type == IBV_QPT_XRC_RECV || qp->last_wqe_raised)
		return;
	qp->last_wqe_raised = true;
	cause_note(CAUSE_LAST_WQE, qp->ib.qp_num, NULL);
	qp_raise(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void qp_fail(struct qp *qp, enum cause cause)
{
	enum ibv_qp_state state = qp_state(qp);

	if (qp->type != IBV_QPT_UD ||
	    (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE)) {
		qp_enter_error(qp, cause);
		return;
	}
	if (state != IBV_QPS_SQE) {
		qp->failure = cause;
		qp_set_state(qp, IBV_QPS_SQE);
	}
	qp_flush(qp);
}

/* In SQD the SQ is drained when nothing is in flight; requests that were not issued stay. */
static void check_drained(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->drained || qp->sq.head != qp->sq.issue ||
	    (qp->sq.issue != qp->sq.tail && wqe_is_begun(sq_wqe(&qp->sq, qp->sq.issue))))
		return;
	qp->drained = true;
	if (qp->attr.en_sqd_async_notify)
		qp_raise(qp, IBV_EVENT_SQ_DRAINED);
}

void qp_retire(struct qp *qp) REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;
	enum ibv_qp_state state = qp_state(qp);

	while (sq->head != sq->tail) {
		const struct wqe *wqe = sq_wqe(sq, sq->head);

		if (wqe->state != WQE_DONE)
			break;
		if (wqe->status != IBV_WC_SUCCESS && state != IBV_QPS_ERR && state != IBV_QPS_SQE) {
			qp_fail(qp, (enum cause)wqe->vendor_err);
			return;
		}
		retire_head(qp);
	}
	if (state == IBV_QPS_SQD)
		check_drained(qp);
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a QP between two operations:
 * - the caller holds its lock;
 * - those of its SQ (sq_check).
 */
void qp_check(const struct qp *qp)
{
	INVARIANT(lock_is_taken(&qp->lock), "QP 0x%06x", qp->ib.qp_num);
	sq_check(&qp->sq);
}
#endif
