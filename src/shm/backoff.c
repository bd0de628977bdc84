/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/backoff.h"

#include "base/clock.h"
#include "execute/rnr.h"
#include "memory/hazard.h"
#include "shm/sendq.h"
#include "shm/timer.h"

static void wait_for(struct shm_qp *lq, enum requester_state state, uint64_t wait_ns)
{
	shm_timer_arm(lq, state, clock_now_ns() + wait_ns);
}

void shm_backoff_on_rnr_nak(struct shm_qp *lq, uint32_t seq, uint8_t timer)
{
	struct qp *qp = lq->qp;

	shm_sendq_go_back(lq, seq);
	if (qp->attr.rnr_retry != 7 && lq->rnr_left-- == 0) {
		qp->sq.issue = seq + 1;
		shm_sendq_fail(lq, seq, IBV_WC_RNR_RETRY_EXC_ERR, CAUSE_NO_RECEIVE,
			       "request %u was refused %u times", seq, qp->attr.rnr_retry + 1u);
		return;
	}
	wait_for(lq, REQUESTER_RNR_WAIT, rnr_timer_ns(timer));
}

void shm_backoff_on_busy(struct shm_qp *lq, uint32_t seq, uint8_t timer)
{
	shm_sendq_go_back(lq, seq);
	wait_for(lq, REQUESTER_RNR_WAIT, rnr_timer_ns(timer));
}

void shm_backoff_on_revocation(struct shm_qp *lq)
{
	wait_for(lq, REQUESTER_REVOKE_WAIT, hazard_pause_ns(lq->looks++));
}

void shm_backoff_on_silence(struct shm_qp *lq, uint32_t seq, enum cause cause)
{
	struct qp *qp = lq->qp;
	uint64_t wait_ns = 4096ull << qp->attr.timeout;

	/* timeout 0 means no time-out: retries for ever, with backoff */
	if (!qp->attr.timeout) {
		wait_ns = BACKOFF_ENDLESS_NS << lq->backoff;
		if (lq->backoff < BACKOFF_DOUBLINGS_MAX)
			lq->backoff++;
	}
	shm_sendq_go_back(lq, seq);
	lq->silence = cause;
	wait_for(lq, REQUESTER_RETRY_WAIT, wait_ns);
}

void shm_backoff_on_loss(struct shm_qp *lq, uint32_t seq, enum cause cause)
{
	struct qp *qp = lq->qp;
	uint64_t wait_ns = (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);

	if (!qp->attr.timeout || wait_ns > BACKOFF_LOSS_NS)
		wait_ns = BACKOFF_LOSS_NS;
	shm_sendq_go_back(lq, seq);
	if (lq->state == REQUESTER_LOSS_WAIT)
		return; /* a timer of another request runs already */
	lq->silence = cause;
	wait_for(lq, REQUESTER_LOSS_WAIT, wait_ns);
}

void shm_backoff_on_full(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;
	struct wqe *wqe = sq_wqe(&qp->sq, qp->sq.issue);

	/*
	 * The timer runs since then, unless it was due while the QP was in SQD and the requester
	 * was ready: that is no end of a wait.
	 */
	if (wqe->room_awaited && shm_timer_is_armed(lq)) {
		lq->state = REQUESTER_FULL_WAIT;
		return;
	}
	wqe->room_awaited = true;
	wait_for(lq, REQUESTER_FULL_WAIT, BACKOFF_FULL_NS);
}

void shm_backoff_on_room(struct shm_qp *lq)
{
	/* the timer goes on for the same datagram, and is ignored once that has left */
	if (lq->state == REQUESTER_FULL_WAIT)
		lq->state = REQUESTER_READY;
}

#define WIRE_RETRY_NS 50000ull

bool shm_backoff_on_wire_full(struct shm_qp *lq, struct wqe *wqe)
{
	if (wqe->wire_tries++ >= BACKOFF_FULL_NS / WIRE_RETRY_NS)
		return false;
	wait_for(lq, REQUESTER_WIRE_WAIT, WIRE_RETRY_NS);
	return true;
}

bool shm_backoff_on_unknown(struct shm_qp *lq)
{
	if (lq->sought)
		return false;
	shm_timer_arm(lq, REQUESTER_PEER_WAIT,
		      lq->seek_end_ns ? lq->seek_end_ns : clock_now_ns() + BACKOFF_PEER_NS);
	return true;
}

void shm_backoff_on_ack(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;

	lq->rnr_left = qp->attr.rnr_retry;
	lq->retry_left = qp->attr.retry_cnt;
	lq->backoff = 0;
}
