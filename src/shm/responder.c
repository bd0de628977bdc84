/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/responder.h"

#include <string.h>

#include "execute/execute.h"
#include "execute/reaction.h"
#include "execute/receive.h"
#include "object/qp_table.h"
#include "object/srq.h"
#include "object/xrcd.h"
#include "shm/answer.h"
#include "shm/rendezvous.h"

/* The outcome of a record's checks before those of its request. */
enum arrival {
	ARRIVAL_EXPECTED,     /* the QP executes it */
	ARRIVAL_STALE,	      /* an old message, or the rest of a refused one: dropped */
	ARRIVAL_UNREACHABLE,  /* the QP is of another service than the sender */
	ARRIVAL_NOT_READY,    /* wrong state, not connected to the sender */
	ARRIVAL_OUT_OF_ORDER, /* its number is not the expected one */
};

/* Code of 1.28 ms: most copies under way end much earlier. */
#define REVOKE_TIMER 14
/* Code of 10 us: the requester need not wait. */
#define BY_RING_TIMER 1

/* Silence needs a NAK, too: a ring does not lose records, so the requester would wait for ever. */
static const uint8_t naks[REFUSALS] = {
	[REFUSAL_SILENT] = NAK_SILENCE,
	[REFUSAL_RNR] = NAK_RNR,
	[REFUSAL_SEQUENCE] = NAK_SILENCE,
	[REFUSAL_INVALID_REQUEST] = NAK_INVALID_REQUEST,
	[REFUSAL_REMOTE_ACCESS] = NAK_REMOTE_ACCESS,
	[REFUSAL_REMOTE_OPERATION] = NAK_REMOTE_OPERATION,
};

/* The requester's cause, which may differ from the responder's. */
static enum cause cause_for_peer(enum verdict verdict, enum cause cause)
{
	switch (verdict) {
	case VERDICT_TOO_LONG:
		return CAUSE_PEER_RECEIVE_TOO_SHORT;
	case VERDICT_RECEIVE_FAULT:
		return CAUSE_PEER_RECEIVE_FAILED;
	default:
		return cause;
	}
}

/* Of an RNR NAK. */
static uint8_t timer_of(const struct qp *qp, enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_REVOKING:
		return NAK_UNCOUNTED | REVOKE_TIMER;
	case VERDICT_SOURCE_LOST:
		return NAK_UNCOUNTED | NAK_BY_RING | BY_RING_TIMER;
	default:
		return qp->attr.min_rnr_timer;
	}
}

/* RING-3, RING-4: before the program can see the completions, exit, or answer the messages. */
static void acknowledge(struct link *link)
{
	uint64_t end = link->coalesced.end, hold = link->rx.hold;

	atomic_store_explicit(&link->executed, end < hold ? end : hold, memory_order_release);
	ring_acknowledge(&link->rx, end);
}

_Static_assert(COALESCED_MAX <= 32, "cq_push_all, and the bits of `solicited`");

void shm_responder_flush_all(struct link *link)
{
	struct coalesced *coalesced = &link->coalesced;
	uint32_t count = coalesced->count;

	acknowledge(link);
	coalesced->count = 0;
	cq_push_all(coalesced->cq, coalesced->cqes, count, coalesced->solicited);
}

/* `waits`: the completion may wait for the records behind it. */
static void complete(struct shm_qp *lq, const struct record_header *header,
		     enum ibv_wc_opcode opcode, uint32_t wc_flags, bool waits)
{
	struct link *link = lq->link;
	struct coalesced *coalesced = &link->coalesced;
	const struct receive_end end = {
		.opcode = opcode,
		.status = IBV_WC_SUCCESS,
		.byte_len = lq->received,
		.wc_flags = wc_flags,
		.imm = header->imm,
		.src_qp = header->src_qpn,
	};

	if (coalesced->count == COALESCED_MAX)
		shm_responder_flush_all(link);
	if (!coalesced->count)
		coalesced->solicited = 0;
	if (record_flags(header) & RECORD_SOLICITED)
		coalesced->solicited |= 1u << coalesced->count;
	receive_finish(lq->qp, &end, &coalesced->cqes[coalesced->count++]);
	coalesced->cq = lq->qp->recv_cq;
	coalesced->end = link->rx_end;
	if (!waits || coalesced->cq->wants_timestamp)
		shm_responder_flush_all(link);
}

static void note_nak(struct shm_qp *lq, const struct record_header *header)
{
	lq->nak_sent = true;
	lq->nak_sent_attempt = header->msn >> 24;
}

/*
 * Puts a verdict that is not VERDICT_OK into effect, for the record that begins at `begin`. The
 * requester repeats a message as a whole.
 */
static void react(struct shm_qp *lq, struct link *link, enum verdict verdict, enum cause cause,
		  const struct record_header *header, uint64_t begin) REQUIRES(lq->qp->lock)
{
	struct qp *qp = lq->qp;
	const struct reaction *reaction = reaction_of(qp, verdict);
	const struct refused_request request = {
		.unit = "message",
		.number = record_msn(header),
		.src_qpn = header->src_qpn,
		.rkey = header->rkey,
		.address = header->remote_addr,
		.length = header->total,
	};
	struct nak_pending nak = {
		.msn = header->msn,
		.nak = naks[reaction->refusal],
		.timer = timer_of(qp, verdict),
		.cause = cause_for_peer(verdict, cause),
	};

	shm_responder_flush(link); /* in front of what the refusal completes, and its events */
	lq->in_message = false;
	if (reaction->fails_qp) {
		reaction_begin(qp, reaction, cause, &request);
		shm_answer_send(lq); /* answers to earlier requests, if there is room */
		reaction_end(lq->qp, reaction, cause);
	} else if (!qp_is_reliable(qp)) {
		lq->dropping = !(record_flags(header) & RECORD_LAST);
		lq->revoked = 0;
		reaction_drop(qp, cause, &request);
	}
	if (!qp_is_reliable(qp))
		return;
	note_nak(lq, header);
	shm_answer_nak(lq, link, header->src_qpn, &nak, begin);
}

/* The sender's service is this QP's: as on a wire, where the opcode names it (IBA 9.2.1). */
static bool is_of_service(const struct qp *qp, const struct record_header *header)
{
	uint32_t service = record_flags(header) & (RECORD_UNACKED | RECORD_XRC);

	switch (qp->type) {
	case IBV_QPT_RC:
		return service == 0;
	case IBV_QPT_UC:
		return service == RECORD_UNACKED;
	case IBV_QPT_XRC_RECV:
		return service == RECORD_XRC;
	default:
		return false;
	}
}

/* The first and the last record of a message are answered, those between are not. */
static bool is_answered(const struct record_header *header)
{
	return record_flags(header) & (RECORD_FIRST | RECORD_LAST);
}

/* The service, the state, the connection, the order: IBA 9.7.4.1.1. */
static enum arrival check_connection(struct shm_qp *lq, struct link *link,
				     const struct record_header *header)
{
	struct qp *qp = lq->qp;
	enum ibv_qp_state state = qp_state(qp);
	bool first = record_flags(header) & RECORD_FIRST;

	if (!is_of_service(qp, header))
		return is_answered(header) ? ARRIVAL_UNREACHABLE : ARRIVAL_STALE;
	/* the peer's process was not known yet when the QP was connected */
	if (!lq->link && link->slot == qp->attr.dest_qp_num >> ARENA_QP_BITS &&
	    (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	    shm_env.peer_is_local(qp)) {
		link_get(link);
		lq->link = link;
	}
	if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD &&
	     state != IBV_QPS_SQE) ||
	    lq->link != link || qp->attr.dest_qp_num != header->src_qpn)
		return is_answered(header) ? ARRIVAL_NOT_READY : ARRIVAL_STALE;
	if (!lq->expecting) {
		lq->expecting = true;
		lq->expected_msn = qp->attr.rq_psn & MSN_MASK;
	}
	if (qp->type == IBV_QPT_UC) {
		/* a message that was not completed is lost (IBA 9.8.2.2.2) */
		if (first)
			lq->in_message = lq->dropping = false;
		return !first && (lq->dropping || !lq->in_message) ? ARRIVAL_STALE
								   : ARRIVAL_EXPECTED;
	}
	/* without its beginning a message is out of order, too */
	if (record_msn(header) != lq->expected_msn || (!first && !lq->in_message))
		return lq->nak_sent && lq->nak_sent_attempt == header->msn >> 24
			       ? ARRIVAL_STALE
			       : ARRIVAL_OUT_OF_ORDER;
	lq->nak_sent = false;
	return ARRIVAL_EXPECTED;
}

/* The range of the request less its first `done` bytes. */
static struct remote_range range_of(const struct record_header *header, uint32_t done)
{
	return (struct remote_range){ header->rkey, header->total - done,
				      header->remote_addr + done };
}

/* The records of a message have its bytes in all, no more and no fewer. */
static bool fits(const struct shm_qp *lq, const struct record_header *header,
		 const struct payload *payload)
{
	uint32_t rest = lq->message_total - lq->received;

	return record_flags(header) & RECORD_LAST ? payload->bytes == rest : payload->bytes <= rest;
}

/* The payload was copied. False: it may not be what was sent. */
static bool close_payload(struct payload *payload)
{
	bool is_whole = payload_is_whole(payload);

	payload_close(payload); /* before the message is acknowledged */
	return is_whole;
}

static enum verdict on_send(struct shm_qp *lq, const struct record_header *header,
			    struct payload *payload, enum cause *cause)
{
	struct qp *qp = lq->qp;
	uint32_t flags = record_flags(header);
	uint32_t wc_flags = 0;
	enum verdict verdict = VERDICT_OK;

	if (flags & RECORD_FIRST) {
		if (qp->srq && srq_limit(qp->srq))
			shm_responder_flush(lq->link); /* in front of the limit's event */
		verdict = receive_take_for(qp, header->total, cause);
	}
	if (verdict != VERDICT_OK)
		return verdict;
	if (!fits(lq, header, payload) || !qp->has_receive)
		return VERDICT_INVALID;
	if (lq->link->coalesced.count && memory_may_wait(qp->receive.sge, qp->receive.num_sge)) {
		shm_responder_flush_all(lq->link);
		cq_give_events();
	}
	verdict = receive_deliver(qp, lq->received, payload->at, payload->bytes, cause);
	if (verdict == VERDICT_OK && !close_payload(payload))
		verdict = VERDICT_SOURCE_LOST;
	if (verdict != VERDICT_OK)
		return verdict;
	lq->received += payload->bytes;
	if (!(flags & RECORD_LAST))
		return VERDICT_OK;
	if (flags & RECORD_INV) {
		verdict = execute_invalidate(qp, header->imm, &lq->revoked, cause);
		if (verdict != VERDICT_OK)
			return verdict;
		wc_flags |= IBV_WC_WITH_INV;
	}
	if (flags & RECORD_IMM)
		wc_flags |= IBV_WC_WITH_IMM;
	complete(lq, header, IBV_WC_RECV, wc_flags, true);
	return VERDICT_OK;
}

static enum verdict on_write(struct shm_qp *lq, const struct record_header *header,
			     struct payload *payload, enum cause *cause)
{
	struct qp *qp = lq->qp;
	uint32_t flags = record_flags(header);
	struct remote_range rest = range_of(header, lq->received);
	struct iovec piece = { (void *)payload->at, payload->bytes };
	enum verdict verdict;

	rest.length = lq->message_total - lq->received;
	if (!fits(lq, header, payload))
		return VERDICT_INVALID;
	verdict = execute_check_right(qp, IBV_ACCESS_REMOTE_WRITE, cause);
	if (verdict == VERDICT_OK && header->total)
		verdict = execute_write(qp, &rest, &piece, 1, payload->bytes, cause);
	if (verdict == VERDICT_OK && !close_payload(payload))
		return VERDICT_SOURCE_LOST;
	if (verdict != VERDICT_OK) {
		if (flags & RECORD_IMM)
			receive_take(qp); /* which fails with it */
		return verdict;
	}
	lq->received += payload->bytes;
	if (!(flags & RECORD_LAST) || !(flags & RECORD_IMM))
		return VERDICT_OK;
	if (!receive_take(qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	complete(lq, header, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, false);
	return VERDICT_OK;
}

/* One more READ or atomic may wait for its response. */
static enum verdict check_resources(struct shm_qp *lq, enum cause *cause)
{
	if (shm_answer_has_room(lq))
		return VERDICT_OK;
	*cause = CAUSE_READ_ATOMIC_OVERFLOW;
	return VERDICT_INVALID;
}

static enum verdict on_read(struct shm_qp *lq, const struct record_header *header,
			    enum cause *cause)
{
	const struct remote_range range = range_of(header, 0);
	enum verdict verdict = check_resources(lq, cause);

	if (verdict == VERDICT_OK)
		verdict = execute_check_right(lq->qp, IBV_ACCESS_REMOTE_READ, cause);
	if (verdict == VERDICT_OK)
		verdict = execute_check_read(lq->qp, &range, lq->qp->remote_pd, cause);
	if (verdict == VERDICT_OK)
		shm_answer_add(lq, header, 0);
	return verdict;
}

/* An operation of one record. */
static enum verdict on_single(struct shm_qp *lq, const struct record_header *header,
			      const struct payload *payload, enum cause *cause)
{
	const struct remote_range range = range_of(header, 0);
	enum operation operation = (enum operation)record_kind(header);
	bool responds = operation_brings_data(operation);
	enum verdict verdict = responds ? check_resources(lq, cause) : VERDICT_OK;
	struct operands operands;
	uint64_t before;

	if (verdict == VERDICT_OK && payload->bytes != sizeof(operands))
		verdict = VERDICT_INVALID;
	if (verdict != VERDICT_OK)
		return verdict;
	memcpy(&operands, payload->at, sizeof(operands));
	verdict = execute_single(lq->qp, operation, &range, &operands, &before, cause);
	if (verdict == VERDICT_OK && responds)
		shm_answer_add(lq, header, before);
	return verdict;
}

/* The record names a place of this process. */
static uint32_t number_of(uint16_t place)
{
	return memory_slot() << XRC_PLACE_BITS | place;
}

/* *cause is CAUSE_PEER_DISORDERLY at first, for requests that contradict themselves. */
static enum verdict execute_request(struct shm_qp *lq, const struct record_header *header,
				    struct payload *payload, enum cause *cause)
{
	struct qp *qp = lq->qp;
	bool is_reliable = qp_is_reliable(qp);

	if (record_flags(header) & RECORD_FIRST) {
		if (qp->type == IBV_QPT_XRC_RECV && !xrc_select(qp, number_of(header->srqn))) {
			*cause = CAUSE_XRC_SRQ_UNKNOWN;
			return VERDICT_INVALID;
		}
		lq->received = 0;
		lq->message_total = header->total;
		lq->message_kind = (uint8_t)record_kind(header);
	} else if (record_kind(header) != lq->message_kind) {
		/* its FIRST was of another kind (IBA 9.7.4.1.2) */
		return VERDICT_INVALID;
	}
	switch (record_kind(header)) {
	case OPERATION_SEND:
		return on_send(lq, header, payload, cause);
	case OPERATION_WRITE:
		return on_write(lq, header, payload, cause);
	case OPERATION_READ:
		return is_reliable ? on_read(lq, header, cause) : VERDICT_INVALID;
	default:
		return is_reliable ? on_single(lq, header, payload, cause) : VERDICT_INVALID;
	}
}

/* Changes nothing of the QP, which may not be connected to the sender. */
static bool refuse(struct link *link, const struct record_header *header, enum arrival arrival)
{
	bool never = arrival == ARRIVAL_UNREACHABLE;
	enum cause cause = never ? CAUSE_PEER_OTHER_SERVICE : CAUSE_PEER_NOT_READY;

	if (!shm_answer_refuse(link, header, never ? NAK_UNREACHABLE : NAK_SILENCE, cause))
		return false;
	if (never && record_flags(header) & RECORD_FIRST)
		cause_report_ratelimited(cause, header->dst_qpn, "QP 0x%06x sends to it",
					 header->src_qpn);
	return true;
}

bool shm_responder_without_qp(struct link *link, const struct record_header *header)
{
	struct qp *qp;
	bool of_service;

	if (!is_answered(header))
		return true;
	if (!qp_find_locked(header->dst_qpn, &qp))
		return shm_answer_refuse(link, header, NAK_UNREACHABLE, CAUSE_PEER_QP_MISSING);
	of_service = is_of_service(qp, header);
	qp_unlock(qp);
	return refuse(link, header, of_service ? ARRIVAL_NOT_READY : ARRIVAL_UNREACHABLE);
}

static void execute(struct shm_qp *lq, struct link *link, const struct record_header *header,
		    const uint8_t *data, uint64_t begin) REQUIRES(lq->qp->lock)
{
	enum cause cause = CAUSE_PEER_DISORDERLY;
	enum verdict verdict = VERDICT_SOURCE_LOST;
	struct payload payload;

	execute_establish(lq->qp);
	if (payload_open(lq, link, header, data, &payload)) {
		verdict = execute_request(lq, header, &payload, &cause);
		payload_close(&payload);
	}
	if (verdict != VERDICT_OK) {
		react(lq, link, verdict, cause, header, begin);
		return;
	}
	lq->in_message = !(record_flags(header) & RECORD_LAST);
	if (!lq->in_message)
		lq->expected_msn = msn_next(lq->expected_msn);
	if (shm_answer_is_owed(lq)) {
		shm_responder_flush(link);
		shm_answer_send(lq);
	}
}

bool shm_responder_on_request(struct shm_qp *lq, struct link *link,
			      const struct record_header *header, const uint8_t *payload,
			      uint64_t end) REQUIRES(lq->qp->lock)
{
	enum arrival arrival = check_connection(lq, link, header);

	switch (arrival) {
	case ARRIVAL_EXPECTED:
		execute(lq, link, header, payload, end - record_size(header));
		break;
	case ARRIVAL_STALE:
		break;
	case ARRIVAL_UNREACHABLE:
	case ARRIVAL_NOT_READY:
	case ARRIVAL_OUT_OF_ORDER:
		shm_responder_flush(link);
		if (!refuse(link, header, arrival))
			return false;
		if (arrival == ARRIVAL_OUT_OF_ORDER)
			note_nak(lq, header);
		break;
	}
	return true;
}

void shm_responder_stop(struct shm_qp *lq)
{
	shm_answer_forget(lq);
	lq->in_message = lq->dropping = lq->nak_sent = lq->expecting = false;
	lq->revoked = 0;
	receive_stop(lq->qp);
}
