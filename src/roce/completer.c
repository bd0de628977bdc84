/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/completer.h"

#include "base/counter.h"
#include "memory/memory.h"
#include "packet/kept.h"
#include "roce/read_repair.h"
#include "roce/request.h"
#include "roce/retransmit.h"
#include "roce/refusal.h"
#include "roce/roce_env.h"
#include "roce/sendq.h"

/*
 * The responder has executed all requests before `end`: finishes those, up to a request that needs
 * a response. `answered`: the response to the oldest one has just come. Returns una_psn.
 */
static psn_t advance(struct roce_qp *tq, psn_t end, bool answered)
{
	struct qp *qp = tq->qp;
	uint32_t packets;

	for (uint32_t seq = qp->sq.head; seq != qp->sq.tail; seq++) {
		struct wqe *wqe = sq_wqe(&qp->sq, seq);

		if (wqe->state == WQE_DONE)
			continue;
		if (!wqe->begun || !psn_before(wqe->first_psn, end))
			break;
		if (request_takes_response(wqe) && !answered) {
			end = psn_after(tq->una_psn, wqe->first_psn) ? tq->una_psn : wqe->first_psn;
			break;
		}
		if (psn_before(end, wqe->end_psn))
			break;
		if (wqe_has_failed(wqe)) /* only to be sent again, which it need not be */
			tq->failure.pending = false;
		wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	}
	if (!psn_after(end, tq->una_psn))
		return tq->una_psn;
	packets = (uint32_t)psn_diff(end, tq->una_psn);
	tq->una_psn = end;
	while (tq->outstanding_head != tq->outstanding_tail &&
	       !psn_after(outstanding_at(tq, tq->outstanding_head)->end, end))
		tq->outstanding_head++;
	if (psn_after(end, tq->next_psn))
		sendq_catch_up(tq);
	if (qp_is_reliable(qp))
		retransmit_on_progress(tq, packets, roce_env.now());
	return end;
}

void completer_on_sent(struct roce_qp *tq)
{
	advance(tq, tq->next_psn, false);
}

/* The WQE with una_psn among its PSNs; NULL: there is none. */
static struct wqe *find_oldest(struct roce_qp *tq, uint32_t *seq)
{
	struct sq *sq = &tq->qp->sq;

	for (uint32_t s = sq->head; s != sq->tail; s++) {
		struct wqe *wqe = sq_wqe(sq, s);

		if (wqe->state == WQE_DONE)
			continue;
		if (!wqe->begun || wqe_has_failed(wqe) || psn_before(tq->una_psn, wqe->first_psn))
			return NULL;
		*seq = s;
		return wqe;
	}
	return NULL;
}

/* The request at una_psn failed, and with it the QP. */
static void give_up(struct roce_qp *tq, enum ibv_wc_status status, enum cause cause)
{
	struct qp *qp = tq->qp;
	struct wqe *wqe;
	uint32_t seq;

	wqe = find_oldest(tq, &seq);
	if (!wqe)
		return;
	sendq_go_back(tq, tq->una_psn);
	qp->sq.issue = seq + 1;
	sendq_fail(tq, seq, status, cause,
		   "peer QP 0x%06x, rkey 0x%x, remote address 0x%llx, length %u",
		   qp->attr.dest_qp_num, wqe->rkey, (unsigned long long)wqe->remote_addr,
		   wqe->length);
}

static enum cause cause_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
		return CAUSE_PEER_REFUSED_ACCESS;
	case IBV_WC_REM_OP_ERR:
		return CAUSE_PEER_RECEIVE_FAILED;
	default:
		return CAUSE_PEER_REFUSED;
	}
}

/* Ignores a reserved code (IBA 9.7.5.2.8). */
static void on_nak(struct roce_qp *tq, uint8_t syndrome)
{
	enum ibv_wc_status status = refusal_status(syndrome);

	if (syndrome == (PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE)) {
		qp_count(tq->qp, COUNTER_PACKET_SEQ_ERR);
		retransmit_on_sequence_nak(tq);
	} else if (status != IBV_WC_SUCCESS) {
		give_up(tq, status, cause_of(status));
	}
}

/* None of ACK, RNR NAK and NAK: ignored (IBA 9.7.5.2.8). */
static bool is_reserved(uint8_t syndrome)
{
	uint8_t kind = syndrome & (PACKET_SYNDROME_MASK | PACKET_SYNDROME_RESERVED);

	return kind != PACKET_SYNDROME_ACK && kind != PACKET_SYNDROME_RNR &&
	       kind != PACKET_SYNDROME_NAK;
}

/* Of a gap behind the first one; it acknowledges nothing. */
static bool is_gap_report(const struct packet *packet)
{
	return packet->gap_report && packet_opcode(packet->opcode)->kind == PACKET_ACK &&
	       packet->syndrome == (PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE);
}

static void on_ack(struct roce_qp *tq, const struct packet *packet)
{
	uint8_t kind = packet->syndrome & PACKET_SYNDROME_MASK;
	psn_t end = kind == PACKET_SYNDROME_ACK ? psn_add(packet->psn, 1) : packet->psn;

	if (!psn_equal(advance(tq, end, false), end)) {
		if (tq->repair.open)
			retransmit_on_answer(tq, false);
		/* the response to a READ before it was lost (IBA 9.7.5.1.1) */
		if (kind == PACKET_SYNDROME_NAK &&
		    refusal_status(packet->syndrome) != IBV_WC_SUCCESS)
			retransmit_on_refusal(tq);
		else
			retransmit_on_gap(tq, packet);
		return;
	}
	if (tq->repair.open)
		retransmit_on_answer(tq, kind == PACKET_SYNDROME_NAK);
	/* earlier requests complete first */
	qp_retire(tq->qp);
	if (kind != PACKET_SYNDROME_ACK)
		qp_count(tq->qp, COUNTER_NAKS_RECEIVED);
	if (kind == PACKET_SYNDROME_RNR) {
		qp_count(tq->qp, COUNTER_RCVD_RNR_ERR);
		retransmit_on_rnr_nak(tq, packet->syndrome & 31);
	} else if (kind == PACKET_SYNDROME_NAK) {
		on_nak(tq, packet->syndrome);
	}
}

/* The response to the request at una_psn. */
static void on_response(struct roce_qp *tq, const struct packet *packet,
			const struct packet_opcode *op)
{
	struct qp *qp = tq->qp;
	const void *data = packet->payload;
	uint32_t bytes = packet->payload_bytes, offset, expected, seq;
	bool is_read_response = op->kind == PACKET_READ_RESPONSE;
	enum cause cause;
	struct wqe *wqe;

	if (!psn_equal(advance(tq, packet->psn, false), packet->psn)) {
		if (tq->repair.open)
			retransmit_on_answer(tq, false);
		retransmit_on_gap(tq, packet);
		return;
	}
	wqe = find_oldest(tq, &seq);
	if (!wqe || !request_takes_response(wqe) ||
	    is_read_response != request_is_answered_as_read(wqe)) {
		qp_retire(qp);
		give_up(tq, IBV_WC_BAD_RESP_ERR, CAUSE_PACKET_OUT_OF_PLACE);
		return;
	}
	offset = (uint32_t)psn_diff(packet->psn, wqe->first_psn) * tq->mtu;
	expected = request_brings_nothing(wqe) ? 0 : wqe->length - offset;
	if (expected > tq->mtu)
		expected = tq->mtu;
	if (!is_read_response) {
		data = &packet->atomic_result;
		bytes = sizeof(packet->atomic_result);
	}
	if (bytes != expected) {
		qp_retire(qp);
		give_up(tq, IBV_WC_BAD_RESP_ERR, CAUSE_PACKET_OUT_OF_PLACE);
		return;
	}
	cause = memory_scatter(wqe->sge, wqe->num_sge, qp->pd->number, offset, data, bytes);
	if (cause != CAUSE_NONE) {
		qp_retire(qp);
		give_up(tq, IBV_WC_LOC_PROT_ERR, cause);
		return;
	}
	advance(tq, psn_add(packet->psn, 1), true);
	if (tq->repair.open)
		retransmit_on_answer(tq, false);
}

static bool is_in_flight(const struct roce_qp *tq, const struct packet *packet)
{
	return tq->started && !psn_before(packet->psn, tq->una_psn) &&
	       psn_before(packet->psn, tq->max_psn);
}

/*
 * A READ is refused after some of its responses. The NAK has the PSN of the response that is not
 * sent; rxe's has that of the request, which is the first of the piece (request_piece).
 */
static bool refuses_begun_read(struct roce_qp *tq, const struct packet *packet,
			       const struct packet_opcode *op)
{
	const struct wqe *wqe;
	uint32_t seq, answered;

	if (op->kind != PACKET_ACK || !tq->started || !psn_before(packet->psn, tq->una_psn) ||
	    (packet->syndrome & PACKET_SYNDROME_MASK) != PACKET_SYNDROME_NAK ||
	    refusal_status(packet->syndrome) == IBV_WC_SUCCESS)
		return false;
	wqe = find_oldest(tq, &seq);
	if (!wqe || opcode_operation(wqe->opcode) != OPERATION_READ)
		return false;
	answered = (uint32_t)psn_diff(tq->una_psn, wqe->first_psn) % wqe->read_piece;
	return answered && psn_equal(packet->psn, psn_sub(tq->una_psn, answered));
}

static void on_packet(struct roce_qp *tq, const struct packet *packet)
{
	enum ibv_qp_state state = qp_state(tq->qp);

	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || !is_in_flight(tq, packet))
		return;
	if (is_reserved(packet->syndrome))
		return;
	if (is_gap_report(packet)) {
		retransmit_on_gap_report(tq, packet);
		return;
	}
	if (packet_opcode(packet->opcode)->kind == PACKET_ACK)
		on_ack(tq, packet);
	else if (packet->syndrome >> 5 == PACKET_SYNDROME_ACK)
		on_response(tq, packet, packet_opcode(packet->opcode));
	if (qp_state(tq->qp) == state)
		sendq_complete(tq);
}

void completer_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op)
{
	struct packet refusal;
	struct kept_packet *kept;

	if (refuses_begun_read(tq, packet, op)) {
		refusal = *packet;
		refusal.psn = tq->una_psn;
		packet = &refusal;
	}
	/* kept ones have been looked at when they came */
	if (op->kind != PACKET_ACK && read_repair_concerns(tq, packet) &&
	    is_in_flight(tq, packet) && !retransmit_on_response(tq, packet))
		return;
	on_packet(tq, packet);
	/* as many as there can be: none is kept once more, whose turn it is */
	for (uint32_t i = 0;
	     i <= KEPT_PSNS && tq->read_repair.open && (kept = read_repair_take(tq)) != NULL; i++) {
		on_packet(tq, &kept->packet);
		kept_free(tq->read_repair.kept, kept);
	}
}
