#include "roce/responder.h"

#include <string.h>

#include "base/counter.h"
#include "execute/atomic.h"
#include "execute/flush.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "object/mw.h"
#include "execute/receive.h"
#include "object/xrcd.h"
#include "roce/answer.h"
#include "roce/congestion.h"
#include "roce/verdict.h"

/* Puts a verdict that is not VERDICT_OK into effect, for the packet with this PSN. */
static void react(struct qp *qp, enum verdict verdict, enum cause cause, uint32_t psn)
	NO_LOCK_CHECK
{
	struct roce_qp *tq = roce_of(qp);
	const struct reaction *reaction = verdict_reaction(
		verdict, qp_is_reliable(qp) ? VERDICT_RC : VERDICT_UC);

	if (verdict == VERDICT_NO_RECEIVE)
		counter_add(COUNTER_NO_RECEIVE);
	if (reaction->ends_message)
		tq->in_message = false;
	if (reaction->fails_qp) {
		counter_add(COUNTER_REFUSED);
		cause_report(cause, qp->ib.qp_num,
			     "PSN %u from QP 0x%06x, rkey 0x%x, address 0x%llx, length %u", psn,
			     qp->attr.dest_qp_num, tq->rkey, (unsigned long long)tq->va, tq->total);
		if (reaction->receive_status)
			receive_blame(qp, (enum ibv_wc_status)reaction->receive_status, cause);
		answer_send(qp); /* what is owed for earlier requests */
		if (reaction->event != VERDICT_NO_EVENT)
			qp_raise(qp, (enum ibv_event_type)reaction->event);
		qp_fail(qp, cause);
	} else if (!qp_is_reliable(qp) && reaction->ends_message) {
		counter_add(COUNTER_DROPPED);
		cause_report_ratelimited(CAUSE_UC_DROPPED, qp->ib.qp_num, "PSN %u from QP 0x%06x: %s", psn,
			     qp->attr.dest_qp_num, cause_sentence(cause));
	}
	if (reaction->syndrome == VERDICT_SILENT)
		return;
	/*
	 * The QP's own completions and state came before the NAK: by the time the requester knows,
	 * this end is in ERR (CONTRACT 15).
	 */
	answer_nak(tq, &(struct nak){ .owed = true,
				      .final = reaction->fails_qp,
				      .syndrome = reaction->syndrome,
				      .psn = psn });
	tq->nak_sent = true;
	tq->stray_psn = psn;
}

static void complete(struct qp *qp, const struct packet *packet, enum ibv_wc_opcode opcode,
		     uint32_t wc_flags)
{
	struct roce_qp *tq = roce_of(qp);
	const struct receive_end end = {
		.opcode = opcode,
		.status = IBV_WC_SUCCESS,
		.byte_len = tq->received,
		.wc_flags = wc_flags,
		.imm = wc_flags & IBV_WC_WITH_INV ? packet->invalidate_rkey : packet->imm,
		.src_qp = qp->attr.dest_qp_num,
		.solicited = packet->solicited,
	};

	receive_complete(qp, &end);
}

/* IBA 9.7.4.1.2: the packet goes on with the message, or begins one when none is under way. */
static enum verdict check_sequence(const struct roce_qp *tq, const struct packet_opcode *op,
				   enum cause *cause)
{
	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	if (op->kind != PACKET_SEND && op->kind != PACKET_WRITE)
		return tq->in_message ? VERDICT_INVALID : VERDICT_OK;
	if (op->first)
		return tq->in_message ? VERDICT_INVALID : VERDICT_OK;
	return tq->in_message && tq->message_kind == op->kind ? VERDICT_OK : VERDICT_INVALID;
}

/* IBA 9.7.4.1.6: FIRST and MIDDLE are full, LAST is not empty, none is more than full. */
static enum verdict check_length(const struct roce_qp *tq, const struct packet *packet,
				 const struct packet_opcode *op, enum cause *cause)
{
	uint32_t bytes = packet->payload_bytes;

	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	if (op->kind == PACKET_READ_REQUEST)
		return packet->length <= LIMIT_MESSAGE ? VERDICT_OK : VERDICT_INVALID;
	if (op->kind != PACKET_SEND && op->kind != PACKET_WRITE)
		return VERDICT_OK;
	if (op->last ? bytes > tq->mtu || (!op->first && !bytes) : bytes != tq->mtu)
		return VERDICT_INVALID;
	if (op->kind == PACKET_SEND)
		return VERDICT_OK;
	if (tq->total > LIMIT_MESSAGE || bytes > tq->total - tq->received)
		return VERDICT_INVALID;
	return !op->last || bytes == tq->total - tq->received ? VERDICT_OK : VERDICT_INVALID;
}

static void start_message(struct roce_qp *tq, const struct packet *packet,
			  const struct packet_opcode *op)
{
	tq->message_kind = op->kind;
	tq->received = 0;
	tq->total = packet->length;
	tq->va = packet->va;
	tq->rkey = packet->rkey;
}

static enum verdict on_send(struct qp *qp, const struct packet *packet,
			    const struct packet_opcode *op, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	uint32_t wc_flags = 0;

	if (!receive_take(qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	if (packet->payload_bytes > qp->receive.length - tq->received) {
		*cause = CAUSE_RECEIVE_TOO_SHORT;
		return VERDICT_TOO_LONG;
	}
	*cause = receive_scatter(qp, tq->received, packet->payload, packet->payload_bytes);
	if (*cause != CAUSE_NONE)
		return VERDICT_RECEIVE_FAULT;
	tq->received += packet->payload_bytes;
	if (!op->last)
		return VERDICT_OK;
	if (op->headers & PACKET_HAS_IETH) {
		*cause = mw_invalidate_once(packet->invalidate_rkey, qp->remote_pd, qp->ib.qp_num,
					    &tq->revoked);
		if (*cause == CAUSE_COPY_UNFINISHED) {
			tq->received -= packet->payload_bytes;
			return VERDICT_REVOKING;
		}
		if (*cause != CAUSE_NONE)
			return VERDICT_INVALIDATE;
		wc_flags |= IBV_WC_WITH_INV;
	}
	if (op->headers & PACKET_HAS_IMM)
		wc_flags |= IBV_WC_WITH_IMM;
	complete(qp, packet, IBV_WC_RECV, wc_flags);
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
 * The key is checked for all that is to come, so that nothing is written if that is not allowed. If
 * it is not, nothing that was held may be acknowledged.
 */
static enum cause write_held(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);
	uint32_t before = tq->received - tq->held_bytes, held = tq->held;
	enum cause cause;

	tq->held = 0;
	if (!tq->total)
		return CAUSE_NONE;
	if (held == 1)
		cause = memory_write_remote(qp_peer(qp), tq->rkey, tq->va + before, tq->total - before,
					    tq->held_pieces[0].iov_base, tq->held_bytes);
	else
		cause = memory_write_remote_pieces(qp_peer(qp), tq->rkey, tq->va + before,
						   tq->total - before, tq->held_pieces, (int)held,
						   tq->held_bytes);
	if (cause != CAUSE_NONE) {
		tq->expected_psn = tq->held_psn;
		tq->ack_psn = tq->held_ack_psn;
	}
	return cause;
}

static enum verdict on_write(struct qp *qp, const struct packet *packet,
			     const struct packet_opcode *op, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	bool imm = op->headers & PACKET_HAS_IMM;

	if (imm && !receive_take(qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
		tq->held_psn = packet->psn;
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	hold(tq, packet);
	if (!op->last && tq->more && tq->held < RESPONDER_HELD_MAX)
		return VERDICT_OK;
	*cause = write_held(qp);
	if (*cause != CAUSE_NONE)
		return VERDICT_ACCESS;
	if (imm)
		complete(qp, packet, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM);
	return VERDICT_OK;
}

/* How many READs and atomics may wait for their answers. */
static bool has_resources(const struct qp *qp)
{
	const struct responses *responses = &roce_of(qp)->responses;
	uint32_t limit = qp->attr.max_dest_rd_atomic ? qp->attr.max_dest_rd_atomic : 1;

	return responses->tail - responses->head < limit;
}

static enum key_verdict check_read_key(struct qp *qp, const struct packet *packet, uint32_t pd)
{
	uint64_t host;
	uint32_t flags;

	if (!packet->length)
		return KEY_OK;
	return key_check(key_table(), packet->rkey, pd, qp->ib.qp_num, packet->va, packet->length,
			 IBV_ACCESS_REMOTE_READ, &host, &flags);
}

static enum verdict on_read(struct qp *qp, const struct packet *packet, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	enum key_verdict verdict;

	if (!has_resources(qp)) {
		*cause = CAUSE_READ_ATOMIC_OVERFLOW;
		return VERDICT_INVALID;
	}
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	verdict = check_read_key(qp, packet, qp->remote_pd);
	if (verdict != KEY_OK) {
		*cause = key_cause_remote(verdict);
		return VERDICT_ACCESS;
	}
	tq->msn = psn_add(tq->msn, 1);
	answer_add_read(&tq->responses, tq, packet, qp->remote_pd, tq->msn);
	return VERDICT_OK;
}

static enum verdict on_atomic(struct qp *qp, const struct packet *packet,
			      const struct packet_opcode *op, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	bool compare_swap = op->kind == PACKET_COMPARE_SWAP;
	struct saved_atomic *saved = &tq->saved[tq->saved_next % LIMIT_QP_RD_ATOM];
	uint64_t before;

	if (!has_resources(qp)) {
		*cause = CAUSE_READ_ATOMIC_OVERFLOW;
		return VERDICT_INVALID;
	}
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	if (packet->va % 8) {
		*cause = CAUSE_ATOMIC_UNALIGNED;
		return VERDICT_INVALID;
	}
	*cause = atomic_execute(qp, compare_swap, packet->rkey, packet->va,
				compare_swap ? packet->compare : packet->swap_add, packet->swap_add,
				&before);
	if (*cause != CAUSE_NONE)
		return VERDICT_ACCESS;
	tq->msn = psn_add(tq->msn, 1);
	tq->saved_next++;
	*saved = (struct saved_atomic){ .valid = true, .psn = packet->psn, .value = before };
	answer_add_atomic(&tq->responses, saved, tq->msn);
	return VERDICT_OK;
}

static enum verdict on_atomic_write(struct qp *qp, const struct packet *packet, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	uint64_t value;

	if (!has_resources(qp)) {
		*cause = CAUSE_READ_ATOMIC_OVERFLOW;
		return VERDICT_INVALID;
	}
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	if (packet->length != sizeof(value) || packet->payload_bytes != sizeof(value))
		return VERDICT_INVALID;
	if (packet->va % 8) {
		*cause = CAUSE_ATOMIC_UNALIGNED;
		return VERDICT_INVALID;
	}
	memcpy(&value, packet->payload, sizeof(value));
	*cause = atomic_write(qp, packet->rkey, packet->va, value);
	if (*cause != CAUSE_NONE)
		return VERDICT_ACCESS;
	tq->msn = psn_add(tq->msn, 1);
	answer_add_empty(&tq->responses, packet->psn, tq->msn);
	return VERDICT_OK;
}

/*
 * There are requesters that do not count FLUSHes among the READs (soft-RoCE): what finds no place for
 * its answer even after the others were sent counts as lost on the way.
 */
static enum verdict on_flush(struct qp *qp, const struct packet *packet, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);

	if (!flush_is_valid(packet->flush_types, packet->flush_level))
		return VERDICT_INVALID;
	if (!flush_is_allowed(qp, packet->flush_types)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_INVALID;
	}
	if (!answer_has_room(tq)) {
		answer_send(qp);
		if (!answer_has_room(tq) || qp_state(qp) == IBV_QPS_ERR)
			return VERDICT_OUT_OF_ORDER;
	}
	*cause = memory_flush_remote(qp_peer(qp), packet->rkey, packet->va, packet->length,
				     flush_rights(packet->flush_types),
				     packet->flush_level == NEWER_FLUSH_MR);
	if (*cause != CAUSE_NONE)
		return VERDICT_ACCESS;
	tq->msn = psn_add(tq->msn, 1);
	answer_add_empty(&tq->responses, packet->psn, tq->msn);
	return VERDICT_OK;
}

/* XRC: the message is for the SRQ that it names, which may be destroyed before its end. */
static bool has_target(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	return qp->type != IBV_QPT_XRC_RECV ||
	       (op->first ? xrc_select(qp, packet->xrc_srqn) : qp->srq != NULL);
}

static enum verdict carry_out(struct qp *qp, const struct packet *packet,
			      const struct packet_opcode *op, enum cause *cause)
{
	struct roce_qp *tq = roce_of(qp);
	enum verdict verdict = check_sequence(tq, op, cause);

	if (verdict != VERDICT_OK)
		return verdict;
	if (!has_target(qp, packet, op)) {
		*cause = CAUSE_XRC_SRQ_UNKNOWN;
		return VERDICT_INVALID;
	}
	if (op->first || (op->kind != PACKET_SEND && op->kind != PACKET_WRITE))
		start_message(tq, packet, op);
	verdict = check_length(tq, packet, op, cause);
	if (verdict != VERDICT_OK)
		return verdict;
	*cause = CAUSE_PACKET_OUT_OF_PLACE;
	switch (op->kind) {
	case PACKET_SEND:
		return on_send(qp, packet, op, cause);
	case PACKET_WRITE:
		return on_write(qp, packet, op, cause);
	case PACKET_READ_REQUEST:
		return qp_is_reliable(qp) ? on_read(qp, packet, cause) : VERDICT_INVALID;
	case PACKET_COMPARE_SWAP:
	case PACKET_FETCH_ADD:
		return qp_is_reliable(qp) ? on_atomic(qp, packet, op, cause) : VERDICT_INVALID;
	case PACKET_ATOMIC_WRITE:
		return qp_is_reliable(qp) ? on_atomic_write(qp, packet, cause) : VERDICT_INVALID;
	case PACKET_FLUSH:
		return qp_is_reliable(qp) ? on_flush(qp, packet, cause) : VERDICT_INVALID;
	default:
		return VERDICT_INVALID;
	}
}

/* It was carried out: its PSNs are done with. */
static void pass(struct roce_qp *tq, const struct packet *packet,
		 const struct packet_opcode *op)
{
	bool message = op->kind == PACKET_SEND || op->kind == PACKET_WRITE;
	uint32_t psns = op->kind == PACKET_READ_REQUEST ? packets_of(packet->length, tq->mtu) : 1;

	tq->expected_psn = psn_add(packet->psn, psns);
	if (message) {
		tq->in_message = !op->last;
		if (op->last)
			tq->msn = psn_add(tq->msn, 1);
		tq->ack_psn = packet->psn;
		/*
		 * A NAK that was not sent yet, and is not needed any more, would have acknowledged what
		 * came before it. UC answers nobody, whatever is asked for.
		 */
		tq->ack_owed |= (packet->ack_req || tq->nak.owed) && qp_is_reliable(tq->qp);
	} else {
		tq->ack_owed = false; /* its answer acknowledges what came before it */
	}
	tq->nak_sent = false;
	tq->nak.owed = false;
}

static void execute(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	enum cause cause = CAUSE_NONE;
	enum verdict verdict;

	if (qp_state(qp) == IBV_QPS_RTR && !qp->comm_established) {
		qp->comm_established = true;
		qp_raise(qp, IBV_EVENT_COMM_EST);
	}
	verdict = carry_out(qp, packet, op, &cause);
	if (verdict == VERDICT_OK)
		pass(roce_of(qp), packet, op);
	else
		react(qp, verdict, cause,
		      verdict == VERDICT_ACCESS && op->kind == PACKET_WRITE ?
			      roce_of(qp)->held_psn :
			      packet->psn);
}

void responder_settle(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);
	enum cause cause;

	if (!tq->held)
		return;
	cause = write_held(qp);
	if (cause != CAUSE_NONE)
		react(qp, VERDICT_ACCESS, cause, tq->held_psn);
}

/*
 * A request that was carried out before is answered again, but has no other effect (IBA 9.7.5.1.4):
 * a READ is executed anew, an atomic's saved result is sent, and what has none is only confirmed. A READ
 * that the key does not allow was not carried out before: who guesses PSNs finds one that is past sooner
 * than the next one, and should not end the connection with it.
 */
static void on_duplicate(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	struct roce_qp *tq = roce_of(qp);
	uint32_t pd = qp->remote_pd;

	counter_add(COUNTER_DUPLICATES);
	switch (op->kind) {
	case PACKET_SEND:
	case PACKET_WRITE:
		tq->ack_owed = true;
		break;
	case PACKET_READ_REQUEST:
		if ((qp->type != IBV_QPT_XRC_RECV || xrc_find_pd(qp, packet->xrc_srqn, &pd)) &&
		    check_read_key(qp, packet, pd) == KEY_OK)
			answer_repeat_read(tq, packet, pd);
		break;
	case PACKET_ATOMIC_WRITE:
	case PACKET_FLUSH:
		answer_repeat_empty(tq, packet->psn);
		break;
	case PACKET_COMPARE_SWAP:
	case PACKET_FETCH_ADD:
		answer_repeat_atomic(tq, packet->psn);
		break;
	default:
		break;
	}
}

/*
 * One NAK for each gap (IBA 9.7.5.1.2). What was on the way behind it follows with rising PSNs, so
 * one that is not higher than the last shows that the requester went back, and the gap is there again.
 */
static void on_stray(struct qp *qp, const struct packet *packet)
{
	struct roce_qp *tq = roce_of(qp);

	counter_add(COUNTER_OUT_OF_ORDER);
	if (!tq->nak_sent || packet_psn_diff(packet->psn, tq->stray_psn) <= 0)
		react(qp, VERDICT_OUT_OF_ORDER, CAUSE_NONE, tq->expected_psn);
	tq->stray_psn = packet->psn;
}

static void on_reliable(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	int32_t distance = packet_psn_diff(packet->psn, roce_of(qp)->expected_psn);

	if (distance < 0)
		on_duplicate(qp, packet, op);
	else if (distance > 0)
		on_stray(qp, packet);
	else
		execute(qp, packet, op);
}

/* IBA 9.8.2.2.2: after a gap the next FIRST or ONLY is accepted, whatever its PSN. */
static void on_unreliable(struct qp *qp, const struct packet *packet,
			  const struct packet_opcode *op)
{
	struct roce_qp *tq = roce_of(qp);
	bool gap = packet->psn != tq->expected_psn;

	tq->expected_psn = packet->psn;
	if (op->first || gap)
		tq->in_message = false;
	if (!op->first && !tq->in_message) {
		counter_add(COUNTER_DROPPED);
		tq->expected_psn = psn_add(packet->psn, 1);
		return;
	}
	execute(qp, packet, op);
	tq->expected_psn = psn_add(packet->psn, 1);
}

void responder_on_packet(struct qp *qp, const struct packet *packet, const struct packet_opcode *op)
{
	struct roce_qp *tq = roce_of(qp);
	bool goes_on = op->kind == PACKET_WRITE && !op->first && packet->psn == tq->expected_psn;
	enum ibv_qp_state state;

	if (!goes_on)
		responder_settle(qp);
	state = qp_state(qp);
	if (state == IBV_QPS_ERR && tq->nak.final) {
		/*
		 * The NAK was lost, and the requester asks again; from an earlier request on, if the
		 * acknowledgement of that was lost too, which the NAK implies.
		 */
		tq->nak.owed = true;
		roce_want_flush(tq);
		return;
	}
	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	if (!tq->expecting) {
		tq->expecting = true;
		tq->expected_psn = qp->attr.rq_psn & PACKET_PSN_MASK;
		tq->ack_psn = psn_add(tq->expected_psn, PACKET_PSN_MASK);
	}
	if (qp_is_reliable(qp))
		on_reliable(qp, packet, op);
	else
		on_unreliable(qp, packet, op);
	roce_want_flush(tq);
}

void responder_flush(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	responder_settle(qp);
	if (tq->responses.head != tq->responses.tail || tq->replays.head != tq->replays.tail ||
	    tq->nak.owed || tq->ack_owed || tq->congestion_seen)
		answer_send(qp);
}

void responder_quiesce(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	tq->held = 0;
	tq->in_message = tq->nak_sent = tq->expecting = tq->ack_owed = false;
	congestion_forget(tq);
	tq->acknowledged_by = NULL;
	tq->revoked = 0;
	tq->responses.head = tq->responses.tail = 0;
	tq->replays.head = tq->replays.tail = 0;
	if (qp_state(qp) != IBV_QPS_ERR) {
		tq->nak = (struct nak){ 0 };
		tq->msn = 0;
		for (unsigned i = 0; i < LIMIT_QP_RD_ATOM; i++)
			tq->saved[i].valid = false;
	}
	receive_stop(qp);
}
