/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/completer.h"

#include <string.h>

#include "memory/memory.h"
#include "shm/backoff.h"
#include "shm/rendezvous.h"
#include "shm/requester.h"

/* The responder has executed the message. */
static void finish(struct shm_qp *lq, struct wqe *wqe)
{
	rendezvous_on_ack(lq, wqe);
	shm_sendq_finish(lq, wqe);
	shm_backoff_on_ack(lq);
}

void shm_completer_on_ack(struct shm_qp *lq, uint32_t seq)
{
	struct qp *qp = lq->qp;
	struct wqe *wqe = sq_wqe(&qp->sq, seq);

	if (seq - qp->sq.head >= qp->sq.issue - qp->sq.head || !wqe_is_on_the_way(wqe) ||
	    wqe_is_read(wqe))
		return;
	finish(lq, wqe);
}

/* Finds the outstanding request with this MSN; false: there is none (a late answer). */
static bool find_msn(struct shm_qp *lq, uint32_t msn, uint32_t *seq)
{
	struct qp *qp = lq->qp;

	for (uint32_t s = qp->sq.head; s != qp->sq.tail; s++) {
		struct wqe *wqe = sq_wqe(&qp->sq, s);

		if (s == qp->sq.issue && !(wqe->state == WQE_POSTED && wqe->done))
			return false; /* from sq.issue on, only a partly sent message */
		if ((wqe_is_on_the_way(wqe) || s == qp->sq.issue) && wqe->msn == msn) {
			*seq = s;
			return true;
		}
		if (s == qp->sq.issue)
			return false;
	}
	return false;
}

/*
 * A NAK acknowledges all earlier messages (IBA 9.7.5.1.2). Responses come in order with NAKs, so no
 * earlier READ can be outstanding; if one is, the peer is faulty, and that READ fails.
 */
static uint32_t finish_earlier(struct shm_qp *lq, uint32_t seq)
{
	struct qp *qp = lq->qp;

	for (uint32_t s = qp->sq.head; s != seq; s++) {
		struct wqe *wqe = sq_wqe(&qp->sq, s);

		if (!wqe_is_on_the_way(wqe))
			continue;
		if (wqe_is_read(wqe))
			return s;
		finish(lq, wqe);
	}
	return seq;
}

static void give_up(struct shm_qp *lq, uint32_t seq, enum ibv_wc_status status, enum cause cause)
{
	struct qp *qp = lq->qp;
	struct wqe *wqe = sq_wqe(&qp->sq, seq);

	if (wqe_is_on_the_way(wqe))
		shm_sendq_finish(lq, wqe); /* for the counters; shm_sendq_fail marks it again */
	qp->sq.issue = seq + 1;
	shm_sendq_fail(lq, seq, status, cause,
		       "peer QP 0x%06x, rkey 0x%x, remote address 0x%llx, length %u",
		       qp->attr.dest_qp_num, wqe->rkey, (unsigned long long)wqe->remote_addr,
		       wqe->length);
}

void shm_completer_on_nak(struct shm_qp *lq, const struct record_header *header)
{
	struct qp *qp = lq->qp;
	enum cause cause = header->rkey < CAUSE_COUNT ? (enum cause)header->rkey : CAUSE_INTERNAL;
	uint32_t seq;

	if (lq->attempt != header->msn >> 24 || !find_msn(lq, record_msn(header), &seq))
		return;
	seq = finish_earlier(lq, seq);
	qp_retire(qp);
	switch (header->imm) {
	case NAK_RNR:
		if (header->total & NAK_BY_RING)
			rendezvous_on_refusal(lq);
		if (header->total & NAK_UNCOUNTED)
			shm_backoff_on_busy(lq, seq, header->total & 31);
		else
			shm_backoff_on_rnr_nak(lq, seq, header->total & 31);
		break;
	case NAK_SILENCE:
		shm_backoff_on_silence(lq, seq, cause);
		break;
	case NAK_UNREACHABLE:
		shm_backoff_on_loss(lq, seq, cause);
		break;
	case NAK_REMOTE_ACCESS:
		give_up(lq, seq, IBV_WC_REM_ACCESS_ERR, cause);
		break;
	case NAK_REMOTE_OPERATION:
		give_up(lq, seq, IBV_WC_REM_OP_ERR, cause);
		break;
	case NAK_INVALID_REQUEST:
	default:
		give_up(lq, seq, IBV_WC_REM_INV_REQ_ERR, cause);
		break;
	}
}

void shm_completer_on_response(struct shm_qp *lq, const struct record_header *header,
			       const void *payload)
{
	struct qp *qp = lq->qp;
	enum cause cause;
	struct wqe *wqe;
	uint32_t seq, earlier;

	if (lq->attempt != header->msn >> 24 || !find_msn(lq, record_msn(header), &seq))
		return;
	wqe = sq_wqe(&qp->sq, seq);
	if (!wqe_is_read(wqe) || seq == qp->sq.issue || header->bytes > wqe->length - wqe->done)
		return;
	earlier = finish_earlier(lq, seq);
	if (earlier != seq)
		return;
	cause = memory_scatter(wqe->sge, wqe->num_sge, qp->pd->number, wqe->done, payload,
			       header->bytes);
	if (cause != CAUSE_NONE) {
		give_up(lq, seq, IBV_WC_LOC_PROT_ERR, cause);
		return;
	}
	wqe->done += header->bytes;
	if (wqe->done < wqe->length)
		return;
	shm_sendq_finish(lq, wqe);
	shm_backoff_on_ack(lq);
	shm_requester_on_progress(lq);
}
