/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/reaction.h"

#include "execute/receive.h"

const struct reaction *reaction_of(const struct qp *qp, enum verdict verdict)
{
	return verdict_reaction(verdict, qp_is_reliable(qp) ? VERDICT_RC : VERDICT_UC);
}

void reaction_begin(struct qp *qp, const struct reaction *reaction, enum cause cause,
		    const struct refused_request *request)
{
	cause_report(cause, qp->ib.qp_num,
		     "%s %u from QP 0x%06x, rkey 0x%x, address 0x%llx, length %u", request->unit,
		     request->number, request->src_qpn, request->rkey,
		     (unsigned long long)request->address, request->length);
	if (reaction->receive_status)
		receive_blame(qp, (enum ibv_wc_status)reaction->receive_status, cause);
}

void reaction_end(struct qp *qp, const struct reaction *reaction, enum cause cause)
{
	if (reaction->event != VERDICT_NO_EVENT)
		qp_raise(qp, (enum ibv_event_type)reaction->event);
	qp_fail(qp, cause);
}

void reaction_drop(struct qp *qp, enum cause cause, const struct refused_request *request)
{
	cause_report_ratelimited(CAUSE_UC_DROPPED, qp->ib.qp_num, "%s %u from QP 0x%06x: %s",
				 request->unit, request->number, request->src_qpn,
				 cause_sentence(cause));
}
