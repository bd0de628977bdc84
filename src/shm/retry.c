/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/retry.h"

#include "base/check.h"
#include "base/clock.h"
#include "object/qp_table.h"
#include "shm/requester.h"
#include "shm/sendq.h"
#include "shm/timer.h"
#include "shm/waiting.h"

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
		/*
		 * the answer may be to another question: then the QP waits for the rest of its time
		 */
		lq->seek_end_ns = lq->deadline_ns;
		shm_requester_issue(lq);
		lq->seek_end_ns = 0;
		return;
	}
	lq->sought |= state == REQUESTER_PEER_WAIT;
	if (state == REQUESTER_FULL_WAIT) {
		shm_waiting_leave(lq);
		sq_wqe(&qp->sq, qp->sq.issue)->route = ROUTE_MESSAGE;
	}
	if (state == REQUESTER_LOSS_WAIT) {
		uint32_t seq = qp->sq.issue++;

		shm_sendq_fail(lq, seq, IBV_WC_RETRY_EXC_ERR, lq->silence, "process %d, QP 0x%06x",
			       (int)lq->link->pid, qp->attr.dest_qp_num);
		return;
	}
	if (state == REQUESTER_RETRY_WAIT && qp->attr.timeout != 0 && lq->retry_left-- == 0) {
		uint32_t seq = qp->sq.issue++;

		shm_sendq_fail(lq, seq, IBV_WC_RETRY_EXC_ERR, lq->silence,
			       "QP 0x%06x did not answer %u times in %llu us each",
			       qp->attr.dest_qp_num, qp->attr.retry_cnt + 1u,
			       (4096ull << qp->attr.timeout) / 1000);
		return;
	}
	shm_requester_issue(lq);
}

void shm_retry_run(uint64_t now)
{
	uint32_t qpn;

	while ((qpn = shm_timer_take_due(now)) != 0) {
		struct shm_qp *lq;
		struct qp *qp;

		if (!qp_find_locked(qpn, &qp))
			continue;
		lq = shm_of(qp);
		if (lq && shm_timer_end(lq) && lq->state != REQUESTER_READY) {
			fire(lq);
			CHECK(shm_sendq_check(lq));
		}
		qp_unlock(qp);
	}
}

void shm_retry_on_peers(void)
{
	if (shm_timer_on_answer())
		shm_retry_run(clock_now_ns());
}
