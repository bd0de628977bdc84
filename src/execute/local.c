/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/local.h"

#include <stdio.h>

#include "object/mw.h"

void local_fail(struct qp *qp, struct local_failure *failure, uint32_t seq,
		enum ibv_wc_status status, enum cause cause, const char *text)
{
	struct wqe *wqe = sq_wqe(&qp->sq, seq);

	/*
	 * rate-limited: the request fails again each time that the requester goes back to an
	 * earlier one
	 */
	cause_report_ratelimited(cause, qp->ib.qp_num, "%s", text);
	*failure = (struct local_failure){ .pending = true,
					   .status = (uint8_t)status,
					   .cause = cause };
	wqe->state = WQE_ISSUED;
	wqe->route = ROUTE_FAILED;
	qp_retire(qp);
	local_complete_failed(qp, failure);
}

bool local_complete_failed(struct qp *qp, struct local_failure *failure) REQUIRES(qp->lock)
{
	if (!failure->pending || qp->sq.head + 1 != qp->sq.issue)
		return false;
	failure->pending = false;
	wqe_finish(sq_wqe(&qp->sq, qp->sq.head), failure->status, failure->cause);
	qp_fail(qp, failure->cause);
	return true;
}

/* A wait that lasts so many looks, about a second, is reported once. */
#define LOOKS_REPORTED 200

/* Results as of mw_bind; CAUSE_COPY_UNFINISHED: to be called again for the same request. */
static enum cause bind_or_invalidate(struct wqe *wqe, uint32_t pd, uint32_t qpn, uint32_t looks)
{
	bool binds = wqe->opcode == IBV_WR_BIND_MW;
	enum cause cause;

	if (binds)
		cause = mw_bind(wqe->window, wqe->region, pd, qpn, wqe->rkey, &wqe->bind);
	else if (wqe->revoked)
		cause = mw_is_over(wqe->revoked) ? CAUSE_NONE : CAUSE_COPY_UNFINISHED;
	else
		cause = mw_invalidate(wqe->imm, pd, qpn);
	if (cause != CAUSE_COPY_UNFINISHED)
		return cause;
	if (!binds)
		wqe->revoked = wqe->imm;
	if (looks == LOOKS_REPORTED)
		mw_report_unfinished(binds ? wqe->window : wqe->revoked, qpn);
	return cause;
}

enum cause local_execute(struct qp *qp, struct local_failure *failure, struct wqe *wqe,
			 uint32_t looks)
{
	enum cause cause = bind_or_invalidate(wqe, qp->pd->number, qp->ib.qp_num, looks);
	char text[32];

	if (cause == CAUSE_NONE) {
		wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	} else if (cause != CAUSE_COPY_UNFINISHED) {
		snprintf(text, sizeof(text), "rkey 0x%08x",
			 wqe->opcode == IBV_WR_BIND_MW ? wqe->rkey : wqe->imm);
		local_fail(qp, failure, qp->sq.issue++, IBV_WC_MW_BIND_ERR, cause, text);
	}
	return cause;
}
