/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/receive.h"

#include "memory/memory.h"

#define GRH_BYTES    40
#define IPV4_OFFSET  20
#define IPV4_VERSION 0x45 /* the first byte: version 4, header of 5 words */

/*
 * Ethernet has no service level. In the sl of a datagram's completion mlx5 returns the kind of L3
 * header instead. UCX up to 1.13 needs it: otherwise it takes IPv4 for IPv6 and drops the datagram.
 */
enum receive_l3 {
	L3_OTHER = 0,
	L3_IPV4 = 2,
};

bool receive_takes_datagrams(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return qp->type == IBV_QPT_UD && !qp->closed &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
		state == IBV_QPS_SQE);
}

bool receive_take(struct qp *qp)
{
	if (!qp->has_receive)
		qp->has_receive = qp->srq ? srq_take(qp->srq, &qp->receive)
					  : rq_take_own(qp->rq, &qp->receive);
	return qp->has_receive;
}

enum verdict receive_take_for(struct qp *qp, uint64_t length, enum cause *cause)
{
	if (!receive_take(qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	if (length > qp->receive.length) {
		*cause = CAUSE_RECEIVE_TOO_SHORT;
		return VERDICT_TOO_LONG;
	}
	return VERDICT_OK;
}

static enum cause name_receive(enum cause cause)
{
	switch (cause) {
	case CAUSE_LKEY_UNKNOWN:
		return CAUSE_RECEIVE_LKEY_UNKNOWN;
	case CAUSE_LKEY_PD:
		return CAUSE_RECEIVE_LKEY_PD;
	case CAUSE_LKEY_RANGE:
		return CAUSE_RECEIVE_LKEY_RANGE;
	case CAUSE_LKEY_ACCESS:
		return CAUSE_RECEIVE_LKEY_ACCESS;
	default:
		return cause;
	}
}

enum cause receive_scatter(struct qp *qp, size_t offset, const void *from, size_t bytes)
{
	uint32_t pd = qp->srq ? qp->srq->pd->number : qp->remote_pd;
	const uint8_t *grh = from;

	if (qp->type == IBV_QPT_UD && offset == 0 && bytes >= GRH_BYTES)
		qp->receive_l3 =
			grh[0] >> 4 != 6 && grh[IPV4_OFFSET] == IPV4_VERSION ? L3_IPV4 : L3_OTHER;
	return name_receive((qp->type == IBV_QPT_UD ? memory_scatter_datagram : memory_scatter)(
		qp->receive.sge, qp->receive.num_sge, pd, offset, from, bytes));
}

enum verdict receive_deliver(struct qp *qp, size_t offset, const void *from, size_t bytes,
			     enum cause *cause)
{
	*cause = receive_scatter(qp, offset, from, bytes);
	return *cause == CAUSE_NONE ? VERDICT_OK : VERDICT_RECEIVE_FAULT;
}

void receive_finish(struct qp *qp, const struct receive_end *end, struct cqe *cqe)
{
	*cqe = (struct cqe){
		.wr_id = qp->receive.wr_id,
		/* The completion of an XRC SRQ outlives the QP, which cannot purge that CQ. */
		.qp = qp->type == IBV_QPT_XRC_RECV ? NULL : qp,
		.rq = qp->rq,
		.kind = CQE_RECEIVE,
		.status = end->status,
		.opcode = end->opcode & 0x7f,
		.vendor_err = end->cause,
		.byte_len = end->byte_len,
		.qp_num = qp->ib.qp_num,
		.wc_flags = end->wc_flags,
		.imm = end->imm,
		.src_qp = end->src_qp,
		.slid = end->slid,
		.sl = qp->type == IBV_QPT_UD ? qp->receive_l3 : qp->attr.ah_attr.sl,
	};

	qp->has_receive = false;
	qp->receive_l3 = L3_OTHER;
}

void receive_complete(struct qp *qp, const struct receive_end *end)
{
	struct cqe cqe;

	receive_finish(qp, end, &cqe);
	cq_push(qp->recv_cq, &cqe, end->solicited);
}

void receive_blame(struct qp *qp, enum ibv_wc_status status, enum cause cause)
{
	qp->receive_status = status;
	qp->receive_cause = cause;
}

void receive_stop(struct qp *qp)
{
	struct receive_end end = {
		.opcode = IBV_WC_RECV,
		.status = (enum ibv_wc_status)qp->receive_status,
		.cause = qp->receive_cause,
	};

	qp->receive_status = IBV_WC_SUCCESS;
	if (!qp->has_receive)
		return;
	if (qp_state(qp) != IBV_QPS_ERR) {
		qp->has_receive = false;
		rq_release(qp->rq, 1);
		return;
	}
	if (end.status == IBV_WC_SUCCESS) {
		end.status = IBV_WC_WR_FLUSH_ERR;
		end.cause = CAUSE_FLUSHED;
	}
	receive_complete(qp, &end);
}

void receive_fault(struct qp *qp, struct receive_end *end, enum cause cause)
{
	end->status = IBV_WC_LOC_PROT_ERR;
	end->cause = cause;
	end->wc_flags = 0;
	end->byte_len = 0;
	receive_complete(qp, end);
	qp_enter_error(qp, cause);
}
