/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/responder.h"

#include <string.h>

#include "base/check.h"
#include "base/counter.h"
#include "execute/copies.h"
#include "execute/execute.h"
#include "execute/reaction.h"
#include "execute/receive.h"
#include "object/xrcd.h"
#include "packet/kept.h"
#include "roce/response.h"
#include "roce/congestion.h"
#include "roce/flush_list.h"
#include "roce/refusal.h"
#include "roce/transmit.h"

/* Puts a verdict that is not VERDICT_OK into effect, for the packet with this PSN. */
static void react(struct roce_qp *tq, enum verdict verdict, enum cause cause, psn_t psn)
	REQUIRES(tq->qp->lock)
{
	struct qp *qp = tq->qp;
	const struct reaction *reaction = reaction_of(qp, verdict);
	const struct refused_request request = {
		.unit = "PSN",
		.number = psn.number,
		.src_qpn = qp->attr.dest_qp_num,
		.rkey = tq->range.rkey,
		.address = tq->range.address,
		.length = tq->range.length,
	};
	const struct nak nak = {
		.owed = true,
		.final = reaction->fails_qp,
		.syndrome = refusal_syndrome(reaction->refusal),
		.psn = psn,
	};

	if (verdict == VERDICT_NO_RECEIVE)
		qp_count(tq->qp, COUNTER_NO_RECEIVE);
	if (verdict != VERDICT_OUT_OF_ORDER)
		kept_drop_all(tq->kept); /* the requester sends all of it again, or nothing more */
	if (reaction->ends_message) {
		tq->in_message = false;
		tq->held = 0; /* of a UC message whose end is refused, or of a QP that fails */
	}
	if (reaction->fails_qp) {
		qp_count(tq->qp, COUNTER_REFUSED);
		reaction_begin(qp, reaction, cause, &request);
		transmit_owed(tq); /* answers to earlier requests */
		if (reaction->refusal != REFUSAL_SILENT)
			response_nak(tq, &nak); /* behind those that are left */
		reaction_end(tq->qp, reaction, cause);
	} else if (!qp_is_reliable(qp) && reaction->ends_message) {
		qp_count(tq->qp, COUNTER_DROPPED);
		reaction_drop(qp, cause, &request);
	}
	if (reaction->refusal == REFUSAL_SILENT)
		return;
	if (!reaction->fails_qp)
		response_nak(tq, &nak);
	tq->nak_sent = true;
	tq->out_of_sequence_psn = psn;
}

static void complete(struct roce_qp *tq, const struct packet *packet, enum ibv_wc_opcode opcode,
		     uint32_t wc_flags)
{
	const struct receive_end end = {
		.opcode = opcode,
		.status = IBV_WC_SUCCESS,
		.byte_len = tq->received,
		.wc_flags = wc_flags,
		.imm = wc_flags & IBV_WC_WITH_INV ? packet->invalidate_rkey : packet->imm,
		.src_qp = tq->qp->attr.dest_qp_num,
		.solicited = packet->solicited,
	};

	receive_complete(tq->qp, &end);
}

/* IBA 9.7.4.1.2: the packet continues the message, or begins one if none is in progress. */
static enum verdict check_sequence(const struct roce_qp *tq, const struct packet_opcode *op,
				   enum cause *cause)
{
	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	if (!operation_is_message(op->kind))
		return tq->in_message ? VERDICT_INVALID : VERDICT_OK;
	if (op->first)
		return tq->in_message ? VERDICT_INVALID : VERDICT_OK;
	return tq->in_message && tq->message_kind == op->kind ? VERDICT_OK : VERDICT_INVALID;
}

/*
 * IBA 9.7.4.1.6: FIRST and MIDDLE have a whole MTU, LAST is not empty, none exceeds the MTU. Of
 * other requests only ATOMIC_WRITE has a payload, 8 bytes.
 */
static enum verdict check_length(const struct roce_qp *tq, const struct packet *packet,
				 const struct packet_opcode *op, enum cause *cause)
{
	uint32_t bytes = packet->payload_bytes, left;

	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	if (op->kind == OPERATION_READ)
		return packet->length <= LIMIT_MESSAGE ? VERDICT_OK : VERDICT_INVALID;
	if (!operation_is_message(op->kind))
		return !op->payload || bytes == sizeof(uint64_t) ? VERDICT_OK : VERDICT_INVALID;
	if (op->last ? bytes > tq->mtu || (!op->first && !bytes) : bytes != tq->mtu)
		return VERDICT_INVALID;
	if (op->kind == OPERATION_SEND)
		return VERDICT_OK;
	left = tq->range.length - tq->received;
	if (tq->range.length > LIMIT_MESSAGE || bytes > left)
		return VERDICT_INVALID;
	return !op->last || bytes == left ? VERDICT_OK : VERDICT_INVALID;
}

static void start_message(struct roce_qp *tq, const struct packet *packet,
			  const struct packet_opcode *op)
{
	bool is_word = op->headers & PACKET_HAS_ATOMIC_ETH; /* which has no length */

	tq->message_kind = op->kind;
	tq->received = 0;
	tq->range = (struct remote_range){ packet->rkey,
					   is_word ? (uint32_t)sizeof(uint64_t) : packet->length,
					   packet->va };
}

static enum verdict on_send(struct roce_qp *tq, const struct packet *packet,
			    const struct packet_opcode *op, enum cause *cause)
{
	uint32_t wc_flags = 0, bytes = packet->payload_bytes;
	enum verdict verdict = receive_take_for(tq->qp, (uint64_t)tq->received + bytes, cause);

	if (verdict == VERDICT_OK)
		verdict = receive_deliver(tq->qp, tq->received, packet->payload, bytes, cause);
	if (verdict == VERDICT_OK && op->headers & PACKET_HAS_IETH) {
		verdict = execute_invalidate(tq->qp, packet->invalidate_rkey, &tq->revoked, cause);
		wc_flags |= IBV_WC_WITH_INV;
	}
	if (verdict != VERDICT_OK)
		return verdict;
	tq->received += bytes;
	if (!op->last)
		return VERDICT_OK;
	if (op->headers & PACKET_HAS_IMM)
		wc_flags |= IBV_WC_WITH_IMM;
	complete(tq, packet, IBV_WC_RECV, wc_flags);
	return VERDICT_OK;
}

static void hold(struct roce_qp *tq, const struct packet *packet)
{
	if (!tq->held) {
		tq->held_psn = packet->psn;
		tq->held_ack_psn = tq->ack_psn;
		tq->held_bytes = 0;
	}
	tq->held_pieces[tq->held++] =
		(struct iovec){ (void *)packet->payload, packet->payload_bytes };
	tq->held_bytes += packet->payload_bytes;
	tq->received += packet->payload_bytes;
}

/*
 * Checks the key for the rest of the message, so that a refused message writes nothing. If the
 * check fails, no held packet may be acknowledged.
 */
static enum verdict write_held(struct roce_qp *tq, enum cause *cause)
{
	const struct remote_range *all = &tq->range;
	uint32_t before = tq->received - tq->held_bytes, held = tq->held;
	const struct remote_range rest = { all->rkey, all->length - before, all->address + before };
	enum verdict verdict;

	tq->held = 0;
	if (!all->length)
		return VERDICT_OK;
	verdict = execute_write(tq->qp, &rest, tq->held_pieces, (int)held, tq->held_bytes, cause);
	if (verdict != VERDICT_OK) {
		tq->expected_psn = tq->held_psn;
		tq->ack_psn = tq->held_ack_psn;
	}
	return verdict;
}

static enum verdict on_write(struct roce_qp *tq, const struct packet *packet,
			     const struct packet_opcode *op, enum cause *cause)
{
	bool imm = op->headers & PACKET_HAS_IMM;
	enum verdict verdict;

	if (imm && !receive_take(tq->qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	verdict = execute_check_right(tq->qp, IBV_ACCESS_REMOTE_WRITE, cause);
	if (verdict != VERDICT_OK) {
		tq->held_psn = packet->psn;
		return verdict;
	}
	hold(tq, packet);
	if (!op->last && tq->more && tq->held < RESPONDER_HELD_MAX)
		return VERDICT_OK;
	verdict = write_held(tq, cause);
	if (verdict == VERDICT_OK && imm)
		complete(tq, packet, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM);
	return verdict;
}

static bool has_resources(const struct roce_qp *tq)
{
	return tq->responses.tail - tq->responses.head < depth_of(tq->qp->attr.max_dest_rd_atomic);
}

/*
 * One more READ or atomic may wait for its response (max_dest_rd_atomic). Responses to FLUSHes may
 * be in the way, which some requesters do not count.
 */
static enum verdict check_resources(struct roce_qp *tq, enum cause *cause)
{
	if (!has_resources(tq) && response_any_is_empty(&tq->responses))
		transmit_owed(tq);
	if (has_resources(tq) && qp_state(tq->qp) != IBV_QPS_ERR)
		return VERDICT_OK;
	*cause = CAUSE_READ_ATOMIC_OVERFLOW;
	return VERDICT_INVALID;
}

static enum verdict on_read(struct roce_qp *tq, const struct packet *packet, enum cause *cause)
{
	uint32_t pd = tq->qp->remote_pd;
	enum verdict verdict = check_resources(tq, cause);

	if (verdict == VERDICT_OK)
		verdict = execute_check_right(tq->qp, IBV_ACCESS_REMOTE_READ, cause);
	if (verdict == VERDICT_OK)
		verdict = execute_check_read(tq->qp, &tq->range, pd, cause);
	if (verdict != VERDICT_OK)
		return verdict;
	tq->msn = msn_add(tq->msn, 1);
	response_add_read(&tq->responses, tq, packet, pd, tq->msn);
	return VERDICT_OK;
}

/*
 * Some requesters do not count FLUSHes among the READs (soft-RoCE). A FLUSH that finds no room for
 * its response, even after the others were sent, counts as lost.
 */
static bool make_room(struct roce_qp *tq, const struct responses *responses)
{
	if (response_has_room(responses))
		return true;
	transmit_owed(tq);
	return response_has_room(responses) && qp_state(tq->qp) != IBV_QPS_ERR;
}

static enum verdict check_room(struct roce_qp *tq)
{
	return make_room(tq, &tq->responses) ? VERDICT_OK : VERDICT_OUT_OF_ORDER;
}

static struct operands operands_of(const struct packet *packet, const struct packet_opcode *op)
{
	struct operands operands = { packet->swap_add, packet->compare };

	if (op->headers & PACKET_HAS_FETH)
		operands = (struct operands){ packet->flush_types, packet->flush_level };
	if (op->payload)
		memcpy(&operands.swap_add, packet->payload, sizeof(operands.swap_add));
	return operands;
}

static void respond_atomic(struct roce_qp *tq, const struct packet *packet, uint64_t before)
{
	struct saved_atomic *saved = saved_at(tq, tq->saved_next++);

	*saved = (struct saved_atomic){ .valid = true, .psn = packet->psn, .value = before };
	response_add_atomic(&tq->responses, tq, packet, before, tq->msn);
}

/* An operation of one packet. */
static enum verdict on_single(struct roce_qp *tq, const struct packet *packet,
			      const struct packet_opcode *op, enum cause *cause)
{
	const struct operands operands = operands_of(packet, op);
	enum verdict verdict =
		op->kind == OPERATION_FLUSH ? check_room(tq) : check_resources(tq, cause);
	uint64_t before;

	if (verdict == VERDICT_OK)
		verdict = execute_single(tq->qp, op->kind, &tq->range, &operands, &before, cause);
	if (verdict != VERDICT_OK)
		return verdict;
	tq->msn = msn_add(tq->msn, 1);
	if (operation_brings_data(op->kind))
		respond_atomic(tq, packet, before);
	else
		response_add_empty(&tq->responses, tq, packet, tq->msn);
	return VERDICT_OK;
}

/* XRC: the message is for the SRQ that it names, which may be destroyed before its end. */
static bool has_target(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	return qp->type != IBV_QPT_XRC_RECV ||
	       (op->first ? xrc_select(qp, packet->xrc_srqn) : qp->srq != NULL);
}

static enum verdict execute_request(struct roce_qp *tq, const struct packet *packet,
				    const struct packet_opcode *op, enum cause *cause)
{
	bool is_reliable = qp_is_reliable(tq->qp);
	enum verdict verdict = check_sequence(tq, op, cause);

	if (verdict != VERDICT_OK)
		return verdict;
	if (!has_target(tq->qp, packet, op)) {
		*cause = CAUSE_XRC_SRQ_UNKNOWN;
		return VERDICT_INVALID;
	}
	if (op->first)
		start_message(tq, packet, op);
	verdict = check_length(tq, packet, op, cause);
	if (verdict != VERDICT_OK)
		return verdict;
	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	switch (op->kind) {
	case OPERATION_SEND:
		return on_send(tq, packet, op, cause);
	case OPERATION_WRITE:
		return on_write(tq, packet, op, cause);
	case OPERATION_READ:
		return is_reliable ? on_read(tq, packet, cause) : VERDICT_INVALID;
	default:
		return is_reliable ? on_single(tq, packet, op, cause) : VERDICT_INVALID;
	}
}

/* The packet was executed: expects the next PSN. */
static void pass(struct roce_qp *tq, const struct packet *packet, const struct packet_opcode *op)
{
	bool message = operation_is_message(op->kind);
	uint32_t psns = op->kind == OPERATION_READ ? packets_of(packet->length, tq->mtu) : 1;

	tq->expected_psn = psn_add(packet->psn, psns);
	if (message) {
		tq->in_message = !op->last;
		if (op->last)
			tq->msn = msn_add(tq->msn, 1);
		tq->ack_psn = packet->psn;
		/*
		 * An unsent NAK that is not needed any more would have acknowledged the requests
		 * before it. UC never acknowledges.
		 */
		tq->ack_owed |= (packet->ack_req || tq->nak.owed) && qp_is_reliable(tq->qp);
	} else {
		tq->ack_owed = false; /* the response acknowledges earlier requests */
	}
	tq->nak_sent = false;
	tq->nak.owed = false;
}

static void execute(struct roce_qp *tq, const struct packet *packet, const struct packet_opcode *op)
	REQUIRES(tq->qp->lock)
{
	enum cause cause = CAUSE_NONE;
	enum verdict verdict;

	execute_establish(tq->qp);
	verdict = execute_request(tq, packet, op, &cause);
	if (verdict == VERDICT_OK)
		pass(tq, packet, op);
	else
		react(tq, verdict, cause,
		      verdict == VERDICT_ACCESS && op->kind == OPERATION_WRITE ? tq->held_psn
									       : packet->psn);
}

void responder_write_held(struct roce_qp *tq) REQUIRES(tq->qp->lock)
{
	enum cause cause;
	enum verdict verdict;

	if (!tq->held)
		return;
	verdict = write_held(tq, &cause);
	if (verdict != VERDICT_OK)
		react(tq, verdict, cause, tq->held_psn);
}

/*
 * A duplicate request has no effect but its response (IBA 9.7.5.1.4): a READ is executed again, an
 * atomic's saved result is sent again, a SEND or WRITE is acknowledged. A READ that its R_Key does
 * not allow is no true duplicate, and dropped: an attacker guesses a past PSN more easily than the
 * next one, and must not be able to end the connection with it.
 */
static void on_duplicate(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op)
{
	const struct remote_range range = { packet->rkey, packet->length, packet->va };
	struct qp *qp = tq->qp;
	uint32_t pd = qp->remote_pd;
	enum cause cause;

	qp_count(tq->qp, COUNTER_DUPLICATE_REQUEST);
	if (operation_is_message(op->kind)) {
		tq->ack_owed = true;
	} else if (op->kind == OPERATION_READ) {
		if ((qp->type != IBV_QPT_XRC_RECV || xrc_find_pd(qp, packet->xrc_srqn, &pd)) &&
		    execute_check_read(qp, &range, pd, &cause) == VERDICT_OK &&
		    make_room(tq, &tq->replays))
			response_repeat_read(tq, packet, pd);
	} else if (operation_brings_data(op->kind)) {
		if (make_room(tq, &tq->replays))
			response_repeat_atomic(tq, packet);
	} else if (make_room(tq, &tq->replays)) {
		response_repeat_empty(tq, packet);
	}
}

/* The last NAK was an RNR NAK: the requester sends again all that is behind it, too. */
static bool waits_for_receive(const struct roce_qp *tq)
{
	return (tq->nak.syndrome & PACKET_SYNDROME_MASK) == PACKET_SYNDROME_RNR;
}

/*
 * One NAK for each gap (IBA 9.7.5.1.2). Packets in flight after the gap arrive with rising PSNs. So
 * a PSN that is not higher than the last shows that the requester sent again what is missing, and
 * that it was lost once more.
 */
static void on_out_of_sequence(struct roce_qp *tq, const struct packet *packet)
	REQUIRES(tq->qp->lock)
{
	bool alone = !kept_any(tq->kept);

	tq->uncounted_out_of_sequence++;
	if (!tq->nak_sent || !psn_after(packet->psn, tq->out_of_sequence_psn))
		react(tq, VERDICT_OUT_OF_ORDER, CAUSE_NONE, tq->expected_psn);
	tq->out_of_sequence_psn = packet->psn;
	if (waits_for_receive(tq) || !kept_add(&tq->kept, tq->expected_psn, packet))
		return;
	tq->uncounted_kept++;
	gap_report_on_kept(tq, packet, alone);
}

static bool is_connected(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

/*
 * The expected PSN was `from`. If the gap before them is filled, executes kept requests, up to the
 * next gap. Where an acknowledgement is owed and another gap is open, it is a NAK, which says so.
 * If the NAK of the first gap has left (`told`), what is behind the next one came long ago, and is
 * not about to be closed by packets that were overtaken: its NAK does not wait for the flush, as
 * the requester's repair waits for it.
 */
static void execute_kept(struct roce_qp *tq, psn_t from, bool told) REQUIRES(tq->qp->lock)
{
	struct kept_packet *kept;
	psn_t last = tq->kept->last;
	bool executed = false;

	tq->more = false;
	/* the PSNs of a READ's response are no requests' */
	kept_drop(tq->kept, from, tq->expected_psn);
	while (is_connected(tq->qp) && (kept = kept_take(tq->kept, tq->expected_psn)) != NULL) {
		const struct packet_opcode *op = packet_opcode(kept->packet.opcode);

		if (op->kind != OPERATION_WRITE || op->first)
			responder_write_held(tq);
		from = kept->packet.psn;
		if (psn_equal(from, tq->expected_psn))
			execute(tq, &kept->packet, op);
		kept_free(tq->kept, kept);
		executed = psn_after(tq->expected_psn, from);
		if (!executed)
			return; /* there is a NAK, or the QP failed */
		if (kept_any(tq->kept))
			kept_drop(tq->kept, from, tq->expected_psn);
	}
	/* behind held packets of a WRITE, which may still be refused, no gap is told of yet */
	if (tq->held || tq->nak_sent || !kept_any(tq->kept) || !(executed || tq->ack_owed))
		return;
	react(tq, VERDICT_OUT_OF_ORDER, CAUSE_NONE, tq->expected_psn);
	tq->out_of_sequence_psn = last;
	if (told)
		transmit_owed(tq);
}

static void on_reliable(struct roce_qp *tq, const struct packet *packet,
			const struct packet_opcode *op) REQUIRES(tq->qp->lock)
{
	psn_t expected = tq->expected_psn;
	int32_t distance = psn_diff(packet->psn, expected);
	bool told = tq->nak_sent && !tq->nak.owed;

	if (!distance) /* a forged request is not to turn them on */
		gap_report_on_request(tq, packet);
	if (distance < 0)
		on_duplicate(tq, packet, op);
	else if (distance > 0)
		on_out_of_sequence(tq, packet);
	else
		execute(tq, packet, op);
	if (kept_any(tq->kept))
		execute_kept(tq, expected, told);
}

/* IBA 9.8.2.2.2: after a gap the next FIRST or ONLY is accepted, whatever its PSN. */
static void on_unreliable(struct roce_qp *tq, const struct packet *packet,
			  const struct packet_opcode *op) REQUIRES(tq->qp->lock)
{
	bool gap = !psn_equal(packet->psn, tq->expected_psn);

	tq->expected_psn = packet->psn;
	if (op->first || gap)
		tq->in_message = false;
	if (!op->first && !tq->in_message) {
		qp_count(tq->qp, COUNTER_DROPPED);
		tq->expected_psn = psn_add(packet->psn, 1);
		return;
	}
	execute(tq, packet, op);
	tq->expected_psn = psn_add(packet->psn, 1);
}

void responder_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op) REQUIRES(tq->qp->lock)
{
	struct qp *qp = tq->qp;
	bool goes_on = op->kind == OPERATION_WRITE && !op->first &&
		       psn_equal(packet->psn, tq->expected_psn);
	enum ibv_qp_state state;

	if (!goes_on)
		responder_write_held(tq);
	state = qp_state(qp);
	if (state == IBV_QPS_ERR && tq->nak.final) {
		/*
		 * The NAK was lost, and the requester repeats the request, or an earlier one if its
		 * acknowledgement was lost, too. The NAK acknowledges that one as well.
		 */
		tq->nak.owed = true;
		flush_list_add(tq);
		return;
	}
	if (!is_connected(qp))
		return;
	if (!tq->expecting) {
		tq->expecting = true;
		tq->expected_psn = psn_of(qp->attr.rq_psn);
		tq->ack_psn = psn_sub(tq->expected_psn, 1);
	}
	if (qp_is_reliable(qp))
		on_reliable(tq, packet, op);
	else
		on_unreliable(tq, packet, op);
	flush_list_add(tq);
}

void responder_flush(struct roce_qp *tq) REQUIRES(tq->qp->lock)
{
	responder_write_held(tq);
	if (tq->ack_owed || response_owes_more(tq))
		transmit_owed(tq);
	if (gap_report_is_owed(tq))
		gap_report_send(tq);
}

void responder_quiesce(struct roce_qp *tq)
{
	struct qp *qp = tq->qp;

	tq->held = 0;
	kept_fini(&tq->kept);
	gap_report_start(tq);
	copies_fini(&tq->copies);
	tq->in_message = tq->nak_sent = tq->expecting = tq->ack_owed = false;
	congestion_forget(tq);
	tq->acknowledged_by = NULL;
	tq->revoked = 0;
	/* Refusing a request does not take back the answers to those before it. */
	if (qp_state(qp) != IBV_QPS_ERR || !tq->nak.final) {
		response_drop_all(tq);
		tq->nak = (struct nak){ 0 };
	}
	if (qp_state(qp) != IBV_QPS_ERR) {
		tq->msn = 0;
		for (uint32_t i = 0; i < tq->saved_slots; i++)
			tq->saved[i].valid = false;
	}
	receive_stop(qp);
}

#ifdef VERBATIM_CHECK
/* Packets of a WRITE that are accepted, and not copied yet. */
static void check_held(const struct roce_qp *tq)
{
	uint32_t bytes = 0, qpn = tq->qp->ib.qp_num;

	INVARIANT(tq->held < RESPONDER_HELD_MAX && tq->in_message &&
			  tq->message_kind == OPERATION_WRITE,
		  "QP 0x%06x: %u held, in_message %d, kind %u", qpn, tq->held, tq->in_message,
		  tq->message_kind);
	for (uint32_t i = 0; i < tq->held; i++)
		bytes += (uint32_t)tq->held_pieces[i].iov_len;
	INVARIANT(bytes == tq->held_bytes && bytes <= tq->received,
		  "QP 0x%06x: %u bytes held, counted %u of %u", qpn, bytes, tq->held_bytes,
		  tq->received);
	INVARIANT(psn_equal(psn_add(tq->held_psn, tq->held), tq->expected_psn),
		  "QP 0x%06x: %u held from PSN %06x on, expected %06x", qpn, tq->held,
		  tq->held_psn.number, tq->expected_psn.number);
}

/*
 * A responder, between two packets:
 * - PSNs and the MSN have 24 bits;
 * - a message in progress is a SEND or a WRITE, and a WRITE has no more bytes than its RETH said;
 * - held packets are the last accepted ones, and their pieces match the counts;
 * - those of kept_check: packets behind a gap;
 * - those of response_check.
 */
void responder_check(const struct roce_qp *tq)
{
	uint32_t qpn = tq->qp->ib.qp_num;

	if (!tq->expecting)
		return;
	INVARIANT(!((tq->expected_psn.number | tq->ack_psn.number) & ~PSN_MASK) &&
			  !(tq->msn & ~PACKET_MSN_MASK),
		  "QP 0x%06x: expected %x, acknowledged %x, MSN %x", qpn, tq->expected_psn.number,
		  tq->ack_psn.number, tq->msn);
	INVARIANT(!tq->in_message || tq->message_kind == OPERATION_SEND ||
			  tq->message_kind == OPERATION_WRITE,
		  "QP 0x%06x: kind %u", qpn, tq->message_kind);
	INVARIANT(!tq->in_message || tq->message_kind != OPERATION_WRITE ||
			  tq->received <= tq->range.length,
		  "QP 0x%06x: %u bytes of %u", qpn, tq->received, tq->range.length);
	if (tq->held)
		check_held(tq);
	kept_check(tq->kept, tq->expected_psn, qpn);
	response_check(tq);
}
#endif
