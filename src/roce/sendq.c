/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/sendq.h"

#include <stdarg.h>
#include <stdio.h>

#include "execute/local.h"
#include "roce/flush_list.h"

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
	sq_retire(tq->qp);
	if (!local_complete_failed(tq->qp, &tq->failure))
		flush_list_add(tq);
}

void sendq_set_done(const struct roce_qp *tq, struct wqe *wqe)
{
	uint64_t done = (uint64_t)tq->mtu * (uint32_t)packet_psn_diff(tq->next_psn, wqe->first_psn);

	wqe->done = done < wqe->length ? (uint32_t)done : wqe->length;
}

/* READs and atomics behind `psn` are not outstanding any more: they are sent anew. */
static void drop_outstanding(struct roce_qp *tq, uint32_t psn)
{
	while (tq->outstanding_head != tq->outstanding_tail) {
		uint32_t last = (tq->outstanding_tail - 1) % LIMIT_QP_RD_ATOM;

		if (packet_psn_diff(tq->outstanding[last].end, psn) <= 0)
			break;
		tq->outstanding_tail--;
	}
}

void sendq_go_back(struct roce_qp *tq, uint32_t psn)
{
	struct sq *sq = &tq->qp->sq;
	bool found = false;

	for (uint32_t seq = sq->head; seq != sq->tail; seq++) {
		struct wqe *wqe = sq_wqe(sq, seq);

		if (wqe->state == WQE_DONE)
			continue; /* acknowledged, or executed at this end alone */
		if (!wqe->begun && !wqe_has_failed(wqe))
			break;
		if (!wqe_has_failed(wqe) && packet_psn_diff(psn, wqe->end_psn) >= 0)
			continue;
		wqe->state = WQE_POSTED;
		wqe->route = ROUTE_UNDECIDED;
		wqe->done = 0;
		if (found)
			continue;
		found = true;
		sq->issue = seq;
		tq->next_psn = psn;
		if (wqe->begun && packet_psn_diff(psn, wqe->first_psn) > 0)
			sendq_set_done(tq, wqe);
	}
	/* the requester finds the failure again when it comes to that request */
	tq->failure.pending = false;
	tq->rtt_running = false;
	drop_outstanding(tq, psn);
}

void sendq_catch_up(struct roce_qp *tq)
{
	struct sq *sq = &tq->qp->sq;

	tq->next_psn = tq->una_psn;
	for (; sq->issue != sq->tail; sq->issue++) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		if (wqe->state == WQE_DONE)
			continue;
		if (wqe->begun && packet_psn_diff(tq->next_psn, wqe->first_psn) > 0)
			sendq_set_done(tq, wqe);
		break;
	}
}
