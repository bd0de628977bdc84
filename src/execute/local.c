/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/local.h"

#include <stdio.h>

#include "object/mw.h"

void local_fail(struct qp *qp, struct local_failure *failure, uint32_t seq, enum ibv_wc_status status,
		enum cause cause, const char *text)
{
	struct wqe *wqe = sq_wqe(&qp->sq, seq);

	/*
	 * rate-limited: the request fails again each time that the requester goes back to an
	 * earlier one
	 */
	cause_report_ratelimited(cause, qp->ib.qp_num, "%s", text);
	*failure = (struct local_failure){ .pending = true, .status = (uint8_t)status, .cause = cause };
	wqe->state = WQE_ISSUED;
	wqe->route = ROUTE_FAILED;
	sq_retire(qp);
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

enum cause local_execute(struct qp *qp, struct local_failure *failure, struct wqe *wqe,
			 uint32_t looks)
{
	enum cause cause = mw_execute(wqe, qp->pd->number, qp->ib.qp_num, looks);
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
