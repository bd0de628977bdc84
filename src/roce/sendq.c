/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/sendq.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "execute/local.h"
#include "packet/kept.h"
#include "roce/flush_list.h"
#include "roce/request.h"

void sendq_fail(struct roce_qp *tq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		const char *fmt, ...)
{
	char text[200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	local_fail(tq->qp, &tq->failure, seq, status, cause, text);
}

void sendq_complete(struct roce_qp *tq)
{
	qp_retire(tq->qp);
	if (!local_complete_failed(tq->qp, &tq->failure))
		flush_list_add(tq);
}

int sendq_make_room(struct roce_qp *tq)
{
	const struct qp *qp = tq->qp;
	const struct depth_ring ring = { tq->outstanding, tq->outstanding_slots,
					 tq->outstanding_head, tq->outstanding_tail,
					 sizeof(*tq->outstanding) };
	uint32_t slots = depth_slots(depth_of(qp->attr.max_rd_atomic));
	struct outstanding_read *outstanding;

	if (slots <= tq->outstanding_slots ||
	    (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_XRC_SEND))
		return 0;
	outstanding = depth_widen(&ring, slots, qp->ib.qp_num);
	if (!outstanding)
		return ENOMEM;
	free(tq->outstanding);
	tq->outstanding = outstanding;
	tq->outstanding_slots = slots;
	return 0;
}

void sendq_set_done(const struct roce_qp *tq, struct wqe *wqe)
{
	uint64_t done = (uint64_t)tq->mtu * (uint32_t)psn_diff(tq->next_psn, wqe->first_psn);

	wqe->done = done < wqe->length ? (uint32_t)done : wqe->length;
}

/* READs and atomics from `psn` on are no longer outstanding: they are sent again. */
static void drop_outstanding(struct roce_qp *tq, psn_t psn)
{
	while (tq->outstanding_head != tq->outstanding_tail) {
		if (!psn_after(outstanding_at(tq, tq->outstanding_tail - 1)->end, psn))
			break;
		tq->outstanding_tail--;
	}
}

void sendq_go_back(struct roce_qp *tq, psn_t psn)
{
	struct sq *sq = &tq->qp->sq;
	bool found = false;

	for (uint32_t seq = sq->head; seq != sq->tail; seq++) {
		struct wqe *wqe = sq_wqe(sq, seq);

		if (wqe->state == WQE_DONE)
			continue; /* acknowledged, or executed at this end only */
		if (!wqe->begun && !wqe_has_failed(wqe))
			break;
		if (!wqe_has_failed(wqe) && !psn_before(psn, wqe->end_psn))
			continue;
		wqe->state = WQE_POSTED;
		wqe->route = ROUTE_UNDECIDED;
		wqe->done = 0;
		if (found)
			continue;
		found = true;
		sq->issue = seq;
		tq->next_psn = psn;
		if (wqe->begun && psn_after(psn, wqe->first_psn))
			sendq_set_done(tq, wqe);
	}
	/* the request fails again at its turn */
	tq->failure.pending = false;
	tq->rtt_running = false;
	drop_outstanding(tq, psn);
}

void sendq_catch_up(struct roce_qp *tq)
{
	struct sq *sq = &tq->qp->sq;

	tq->next_psn = tq->una_psn;
	for (; !tq->failure.pending && sq->issue != sq->tail; sq->issue++) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		if (wqe->state == WQE_DONE)
			continue;
		if (wqe->begun && psn_after(tq->next_psn, wqe->first_psn))
			sendq_set_done(tq, wqe);
		break;
	}
}

void sendq_resume(struct roce_qp *tq, psn_t psn)
{
	struct sq *sq = &tq->qp->sq;

	if (tq->failure.pending)
		return;
	for (; sq->issue != sq->tail && psn_before(tq->next_psn, psn); sq->issue++) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		if (wqe->state == WQE_DONE)
			continue;
		if (!wqe->begun || wqe_has_failed(wqe) || request_takes_response(wqe))
			break;
		tq->next_psn = psn_after(wqe->end_psn, psn) ? psn : wqe->end_psn;
		sendq_set_done(tq, wqe);
		if (psn_before(tq->next_psn, wqe->end_psn))
			break;
		wqe->state = WQE_ISSUED;
	}
}

struct wqe *sendq_find(const struct roce_qp *tq, psn_t psn)
{
	struct sq *sq = &tq->qp->sq;

	for (uint32_t seq = sq->head; seq != sq->tail; seq++) {
		struct wqe *wqe = sq_wqe(sq, seq);

		if (wqe->state == WQE_DONE)
			continue;
		if (!wqe->begun || wqe_has_failed(wqe) || psn_before(psn, wqe->first_psn))
			return NULL;
		if (psn_before(psn, wqe->end_psn))
			return wqe;
	}
	return NULL;
}

#ifdef VERBATIM_CHECK
#define REQUESTS 8 /* in flight; a check looks at all only now and then */

/* Requests in flight, oldest first, have PSNs that rise, from una_psn to next_psn. */
static void check_requests(const struct roce_qp *tq)
{
	struct sq *sq = &tq->qp->sq;
	uint32_t most = check_sometimes(4 * REQUESTS) ? UINT32_MAX : REQUESTS,
		 qpn = tq->qp->ib.qp_num;
	const struct wqe *before = NULL;

	for (uint32_t seq = sq->head; seq != sq->issue && most; seq++, most--) {
		const struct wqe *wqe = sq_wqe(sq, seq);

		if (wqe->state == WQE_DONE || wqe_has_failed(wqe))
			continue;
		INVARIANT(wqe->begun && psn_after(wqe->end_psn, wqe->first_psn),
			  "QP 0x%06x request %u: begun %d, PSNs %06x to %06x", qpn, seq, wqe->begun,
			  wqe->first_psn.number, wqe->end_psn.number);
		INVARIANT(psn_after(wqe->end_psn, tq->una_psn) &&
				  !psn_before(tq->next_psn, wqe->end_psn),
			  "QP 0x%06x request %u: end %06x, una %06x next %06x", qpn, seq,
			  wqe->end_psn.number, tq->una_psn.number, tq->next_psn.number);
		INVARIANT(!before || !psn_before(wqe->first_psn, before->end_psn),
			  "QP 0x%06x request %u: begins at %06x, the one before ends at %06x", qpn,
			  seq, wqe->first_psn.number, before->end_psn.number);
		before = wqe;
	}
}

/* Outstanding READs and atomics have rising PSNs up to next_psn, and end after una_psn. */
static void check_outstanding(const struct roce_qp *tq)
{
	uint32_t count = tq->outstanding_tail - tq->outstanding_head, qpn = tq->qp->ib.qp_num;
	const struct outstanding_read *before = NULL;

	/* max_rd_atomic may have been lowered in SQD since they were sent */
	INVARIANT(count <= tq->outstanding_slots,
		  "QP 0x%06x: %u READs and atomics outstanding, %u slots", qpn, count,
		  tq->outstanding_slots);
	for (uint32_t i = tq->outstanding_head; i != tq->outstanding_tail; i++) {
		const struct outstanding_read *read = outstanding_at(tq, i);

		INVARIANT(psn_after(read->end, read->first) && psn_after(read->end, tq->una_psn) &&
				  !psn_before(tq->next_psn, read->end) &&
				  (!before || !psn_before(read->first, before->end)),
			  "QP 0x%06x: PSNs %06x to %06x, una %06x next %06x", qpn,
			  read->first.number, read->end.number, tq->una_psn.number,
			  tq->next_psn.number);
		before = read;
	}
}

/*
 * The send queue of a requester that has started, between two packets or posts:
 * - una_psn <= next_psn <= max_psn: unacknowledged packets were sent, and max_psn is after all sent
 *   packets;
 * - at most the highest window that the other end's buffer allows is in flight, and half of it more
 *   after a repair; or what an end keeps (repair_window);
 * - requests in flight have PSNs that rise, none is wholly acknowledged (check_requests);
 * - outstanding READs and atomics are those of the ring (check_outstanding);
 * - a failure at this end is that of the request before sq.issue.
 */
void sendq_check(const struct roce_qp *tq)
{
	const struct qp *qp = tq->qp;

	if (!tq->started)
		return;
	INVARIANT(!psn_before(tq->next_psn, tq->una_psn) && !psn_before(tq->max_psn, tq->next_psn),
		  "QP 0x%06x: una %06x next %06x max %06x", qp->ib.qp_num, tq->una_psn.number,
		  tq->next_psn.number, tq->max_psn.number);
	INVARIANT(sendq_in_flight(tq) <= tq->window.most + tq->window.most / 2 ||
			  sendq_in_flight(tq) <= kept_most(tq->mtu),
		  "QP 0x%06x: %u packets in flight, window at most %u", qp->ib.qp_num,
		  sendq_in_flight(tq), tq->window.most);
	INVARIANT(!tq->failure.pending ||
			  (qp->sq.issue != qp->sq.head &&
			   wqe_has_failed(sq_wqe((struct sq *)&qp->sq, qp->sq.issue - 1))),
		  "QP 0x%06x: head %u issue %u", qp->ib.qp_num, qp->sq.head, qp->sq.issue);
	check_requests(tq);
	check_outstanding(tq);
}
#endif
