/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/retry.h"

#include "base/clock.h"
#include "execute/rnr.h"
#include "memory/hazard.h"
#include "shm/requester.h"

static struct lock timer_lock = LOCK_INITIALIZER;
static struct list timers GUARDED_BY(timer_lock) = { &timers, &timers };
static _Atomic uint64_t next_deadline = RETRY_NEVER; /* written under timer_lock */
static _Atomic uint32_t answers; /* of verbatimd; written under timer_lock */

uint64_t shm_retry_deadline_ns(void)
{
	return atomic_load_explicit(&next_deadline, memory_order_relaxed);
}

static void arm_until(struct shm_qp *lq, enum requester_state state, uint64_t deadline)
{
	bool first;

	lq->state = state;
	lock_acquire(&timer_lock);
	lq->deadline_ns = deadline;
	lq->seeks = state == REQUESTER_PEER_WAIT;
	lq->answered = lq->seeks && lq->answers != answers;
	if (lq->answered)
		deadline = 1; /* due: an answer came after the requester looked (barrier ANSWER) */
	if (!lq->timer_armed)
		list_add_tail(&timers, &lq->timer_node);
	lq->timer_armed = true;
	first = deadline < next_deadline;
	if (first)
		next_deadline = deadline;
	if (first)
		shm_env.deadline(deadline);
	lock_release(&timer_lock);
}

static void arm(struct shm_qp *lq, enum requester_state state, uint64_t wait_ns)
{
	arm_until(lq, state, clock_now_ns() + wait_ns);
}

static void disarm(struct shm_qp *lq)
{
	lq->state = REQUESTER_READY;
	lock_acquire(&timer_lock);
	if (lq->timer_armed)
		list_del(&lq->timer_node);
	lq->timer_armed = false;
	lock_release(&timer_lock);
}

/*
 * Posts all requests from `seq` on anew: the responder has dropped what came behind it (IBA 9.7.5.1.2,
 * go-back-N). The new epoch voids their entries in the in_flight queue.
 */
static void go_back(struct shm_qp *lq, uint32_t seq)
{
	struct qp *qp = lq->qp;

	lq->epoch = shm_new_epoch();
	lq->attempt++;
	for (uint32_t s = seq; s != qp->sq.issue; s++) {
		struct wqe *wqe = sq_wqe(&qp->sq, s);

		if (wqe->state == WQE_DONE)
			continue; /* carried out at this end alone */
		if (wqe->state == WQE_ISSUED && !wqe_has_failed(wqe)) {
			lq->unacked--;
			if (wqe_is_read(wqe))
				lq->reads--;
		}
		wqe->state = WQE_POSTED;
		wqe->begun = 1;
		wqe->route = ROUTE_UNDECIDED;
		wqe->done = 0;
	}
	if (qp->sq.issue != qp->sq.tail) {
		struct wqe *wqe = sq_wqe(&qp->sq, qp->sq.issue);

		wqe->begun |= wqe->done != 0;
		wqe->done = 0;
	}
	lq->next_msn = sq_wqe(&qp->sq, seq)->first_psn;
	lq->failure.pending = false; /* it is found again when its turn comes */
	qp->sq.issue = seq;
}

void shm_retry_on_rnr_nak(struct shm_qp *lq, uint32_t seq, uint8_t timer)
{
	struct qp *qp = lq->qp;

	go_back(lq, seq);
	if (qp->attr.rnr_retry != 7 && lq->rnr_left-- == 0) {
		qp->sq.issue = seq + 1;
		shm_requester_fail(lq, seq, IBV_WC_RNR_RETRY_EXC_ERR, CAUSE_NO_RECEIVE,
			       "request %u was refused %u times", seq, qp->attr.rnr_retry + 1u);
		return;
	}
	arm(lq, REQUESTER_RNR_WAIT, rnr_timer_ns(timer));
}

void shm_retry_on_busy(struct shm_qp *lq, uint32_t seq, uint8_t timer)
{
	go_back(lq, seq);
	arm(lq, REQUESTER_RNR_WAIT, rnr_timer_ns(timer));
}

void shm_retry_on_revocation(struct shm_qp *lq)
{
	arm(lq, REQUESTER_REVOKE_WAIT, hazard_pause_ns(lq->looks++));
}

void shm_retry_on_silence(struct shm_qp *lq, uint32_t seq, enum cause cause)
{
	struct qp *qp = lq->qp;
	uint64_t wait_ns = 4096ull << qp->attr.timeout;

	/* timeout 0 means no time-out: try again for ever, less and less often */
	if (!qp->attr.timeout) {
		wait_ns = RETRY_ENDLESS_NS << lq->backoff;
		if (lq->backoff < RETRY_BACKOFF_MAX)
			lq->backoff++;
	}
	go_back(lq, seq);
	lq->silence = cause;
	arm(lq, REQUESTER_RETRY_WAIT, wait_ns);
}

void shm_retry_on_loss(struct shm_qp *lq, uint32_t seq, enum cause cause)
{
	struct qp *qp = lq->qp;
	uint64_t wait_ns = (4096ull << qp->attr.timeout) * (qp->attr.retry_cnt + 1u);

	if (!qp->attr.timeout || wait_ns > RETRY_LOSS_NS)
		wait_ns = RETRY_LOSS_NS;
	go_back(lq, seq);
	if (lq->state == REQUESTER_LOSS_WAIT)
		return; /* for a later request, since before */
	lq->silence = cause;
	arm(lq, REQUESTER_LOSS_WAIT, wait_ns);
}

void shm_retry_on_full(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;
	struct wqe *wqe = sq_wqe(&qp->sq, qp->sq.issue);

	if (wqe->room_awaited) { /* the timer runs since then */
		lq->state = REQUESTER_FULL_WAIT;
		return;
	}
	wqe->room_awaited = true;
	arm(lq, REQUESTER_FULL_WAIT, RETRY_FULL_NS);
}

#define WIRE_RETRY_NS 100000ull

bool shm_retry_on_wire_full(struct shm_qp *lq, struct wqe *wqe)
{
	if (wqe->wire_tries++ >= RETRY_FULL_NS / WIRE_RETRY_NS)
		return false;
	arm(lq, REQUESTER_WIRE_WAIT, WIRE_RETRY_NS);
	return true;
}

void shm_retry_on_look(struct shm_qp *lq)
{
	lq->answers = atomic_load_explicit(&answers, memory_order_acquire);
}

bool shm_retry_on_unknown(struct shm_qp *lq)
{
	if (lq->sought)
		return false;
	arm_until(lq, REQUESTER_PEER_WAIT,
		  lq->seek_end_ns ? lq->seek_end_ns : clock_now_ns() + RETRY_PEER_NS);
	return true;
}

void shm_retry_on_peers(void)
{
	struct list *pos;
	bool any = false;

	lock_acquire(&timer_lock);
	answers++;
	list_for_each(pos, &timers) {
		struct shm_qp *lq = list_entry(pos, struct shm_qp, timer_node);

		lq->answered = lq->seeks;
		any |= lq->seeks;
	}
	lock_release(&timer_lock);
	if (any)
		shm_retry_run(clock_now_ns());
}

void shm_retry_on_room(struct shm_qp *lq)
{
	/* the timer goes on for the same datagram, and is ignored once that has left */
	if (lq->state == REQUESTER_FULL_WAIT)
		lq->state = REQUESTER_READY;
}

void shm_retry_on_ack(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;

	lq->rnr_left = qp->attr.rnr_retry;
	lq->retry_left = qp->attr.retry_cnt;
	lq->backoff = 0;
}

void shm_retry_start(struct shm_qp *lq)
{
	shm_retry_on_ack(lq);
}

void shm_retry_stop(struct shm_qp *lq)
{
	disarm(lq);
}

static void fire(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;
	enum requester_state state = lq->state;

	lq->state = REQUESTER_READY;
	if (qp_state(qp) != IBV_QPS_RTS && qp_state(qp) != IBV_QPS_SQD)
		return;
	if (qp->sq.issue == qp->sq.tail)
		return;
	if (state == REQUESTER_PEER_WAIT && lq->answered) {
		/* the answer may be about another process: then the QP waits for the rest of its time */
		lq->seek_end_ns = lq->deadline_ns;
		shm_requester_issue(lq);
		lq->seek_end_ns = 0;
		return;
	}
	lq->sought |= state == REQUESTER_PEER_WAIT;
	if (state == REQUESTER_FULL_WAIT) {
		shm_requester_unblock(lq);
		sq_wqe(&qp->sq, qp->sq.issue)->route = ROUTE_MESSAGE;
	}
	if (state == REQUESTER_LOSS_WAIT) {
		uint32_t seq = qp->sq.issue++;

		shm_requester_fail(lq, seq, IBV_WC_RETRY_EXC_ERR, lq->silence, "process %d, QP 0x%06x",
				     (int)lq->link->pid, qp->attr.dest_qp_num);
		return;
	}
	if (state == REQUESTER_RETRY_WAIT && qp->attr.timeout != 0 && lq->retry_left-- == 0) {
		uint32_t seq = qp->sq.issue++;

		shm_requester_fail(lq, seq, IBV_WC_RETRY_EXC_ERR, lq->silence,
			       "QP 0x%06x did not answer %u times in %llu us each",
			       qp->attr.dest_qp_num, qp->attr.retry_cnt + 1u,
			       (4096ull << qp->attr.timeout) / 1000);
		return;
	}
	shm_requester_issue(lq);
}

/* Takes one timer that is due off the list; 0: none. Sets next_deadline when none is left. */
static uint32_t take_due(uint64_t now)
{
	struct list *pos;
	uint64_t next = RETRY_NEVER;
	uint32_t qpn = 0;

	lock_acquire(&timer_lock);
	list_for_each(pos, &timers) {
		struct shm_qp *lq = list_entry(pos, struct shm_qp, timer_node);

		if (lq->deadline_ns <= now || lq->answered) {
			qpn = lq->qp->ib.qp_num;
			list_del(&lq->timer_node);
			lq->timer_armed = false;
			break;
		}
		if (lq->deadline_ns < next)
			next = lq->deadline_ns;
	}
	if (!qpn)
		next_deadline = next;
	lock_release(&timer_lock);
	return qpn;
}

void shm_retry_run(uint64_t now)
{
	uint32_t qpn;

	while ((qpn = take_due(now)) != 0) {
		struct shm_qp *lq;
		struct qp *qp;

		if (!qp_find_locked(qpn, &qp))
			continue;
		lq = shm_of(qp);
		/* Disarmed and armed again in between: then it is not due, and armed. */
		if (lq && !lq->timer_armed && lq->state != REQUESTER_READY)
			fire(lq);
		qp_unlock(qp);
	}
	lock_acquire(&timer_lock);
	if (next_deadline != RETRY_NEVER)
		shm_env.deadline(next_deadline);
	lock_release(&timer_lock);
}

void shm_retry_reset_after_fork(void)
{
	lock_acquire_in_child(&timer_lock);
	list_init(&timers);
	next_deadline = RETRY_NEVER;
	lock_release(&timer_lock);
}
