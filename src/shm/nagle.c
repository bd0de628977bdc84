/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/nagle.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/gid.h"
#include "object/ah.h"
#include "object/qp_table.h"
#include "shm/requester.h"
#include "shm/sendq.h"
#include "shm/timer.h"

/* What a GSO batch takes (udp/wire.h, which this layer does not know), roughly. */
#define BATCH_DATAGRAMS 62
#define BATCH_BYTES	60000

_Thread_local struct nagle nagle __attribute__((tls_model("initial-exec")));

static bool leaves_host(const struct wqe *wqe)
{
	return !wqe->ah->local && !gid_is_multicast(wqe->ah->attr.grh.dgid.raw);
}

/*
 * The n-th post since this thread's last poll; several threads on one QP share the count. Behind
 * posts that filled a batch the first ones count as those of the next.
 */
static bool is_in_a_row(struct shm_qp *lq)
{
	if (lq->posts_of != nagle.polls) {
		lq->posts_of = nagle.polls;
		lq->posts = lq->filled ? NAGLE_AT_ONCE : 0;
		lq->filled = false;
	}
	return ++lq->posts > NAGLE_AT_ONCE;
}

static bool is_listed(uint32_t qpn)
{
	for (uint32_t i = nagle.count; i-- > 0;)
		if (nagle.qpns[i] == qpn)
			return true;
	return false;
}

static bool list_qp(uint32_t qpn)
{
	if (is_listed(qpn))
		return true;
	if (nagle.count == NAGLE_QPS)
		return false;
	nagle.qpns[nagle.count++] = qpn;
	return true;
}

static bool is_filled(struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;
	uint32_t waiting = sq->tail - sq->issue;

	return waiting >= BATCH_DATAGRAMS ||
	       (waiting && waiting * sq_wqe(sq, sq->tail - 1)->length >= BATCH_BYTES);
}

static bool may_wait(struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;
	const struct wqe *first = sq_wqe(sq, sq->issue), *last = sq_wqe(sq, sq->tail - 1);

	return is_in_a_row(lq) && nagle.waits_left && leaves_host(last) && last->ah == first->ah &&
	       !is_filled(lq);
}

static void begin_wait(struct shm_qp *lq)
{
	uint64_t wait_ns = lq->streams ? NAGLE_STREAM_WAIT_NS : NAGLE_WAIT_NS;

	lq->streams = false;
	shm_timer_arm(lq, REQUESTER_BATCH_WAIT, clock_now_ns() + wait_ns);
}

bool nagle_waits(struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;
	bool more = sq->issue != sq->tail && may_wait(lq);

	if (lq->state != REQUESTER_READY && lq->state != REQUESTER_BATCH_WAIT)
		return true; /* for something else, which ends with a call of the requester */
	if (!more || !list_qp(lq->qp->ib.qp_num)) {
		lq->streams = lq->state == REQUESTER_BATCH_WAIT && is_filled(lq);
		lq->filled = lq->filled || lq->streams;
		lq->state = REQUESTER_READY; /* the timer finds nothing to do */
		return false;
	}
	nagle.waits_left--;
	if (lq->state == REQUESTER_READY)
		begin_wait(lq);
	return true;
}

static void issue(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	if (!lq || lq->state != REQUESTER_BATCH_WAIT)
		return; /* it was issued since */
	lq->state = REQUESTER_READY;
	if (qp_state(qp) == IBV_QPS_RTS)
		shm_requester_issue(lq);
	CHECK(shm_sendq_check(lq));
}

void nagle_flush(void)
{
	uint32_t qpns[NAGLE_QPS], count = nagle.count;

	memcpy(qpns, nagle.qpns, count * sizeof(*qpns));
	nagle.count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct qp *qp;

		if (!qp_find_locked(qpns[i], &qp))
			continue;
		issue(qp);
		qp_unlock(qp);
	}
}

void nagle_reset_after_fork(void)
{
	nagle = (struct nagle){ 0 };
}
