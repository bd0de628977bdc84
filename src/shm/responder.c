#include "shm/responder.h"

#include <string.h>

#include "shm/answer.h"
#include "execute/atomic.h"
#include "execute/flush.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "object/mw.h"
#include "execute/receive.h"
#include "object/xrcd.h"

/* What a request can end in (what follows from it is the table below). */
enum verdict {
	VERDICT_OK,
	VERDICT_STALE,	      /* an old message, or the rest of one that was refused */
	VERDICT_UNREACHABLE,  /* the QP is of another service than the sender */
	VERDICT_NOT_READY,    /* wrong state, not connected to the sender */
	VERDICT_OUT_OF_ORDER, /* the message sequence number is not the expected one */
	VERDICT_NO_RECEIVE,
	VERDICT_TOO_LONG,      /* for the receive */
	VERDICT_RECEIVE_FAULT, /* the receive's memory is not usable */
	VERDICT_INVALID,       /* malformed, unaligned, or too many READs */
	VERDICT_ACCESS,	       /* R_Key or right */
	VERDICT_INVALIDATE,    /* SEND_WITH_INV with a key that does not allow it */
	VERDICT_REVOKING, /* SEND_WITH_INV, and somebody still copies by the key, which is dead */
	VERDICTS
};

/* Code of 1.28 ms: most copies that are under way are over long before. */
#define REVOKE_TIMER 14

struct reaction {
	uint8_t nak;		/* enum nak; 0: nothing is sent */
	uint8_t receive_status; /* the message's receive completes with it; 0: it does not */
	bool fails_qp;
	uint8_t event; /* enum ibv_event_type + 1; 0: none */
};

static const struct reaction reactions[VERDICTS] = {
	[VERDICT_UNREACHABLE] = { NAK_UNREACHABLE },
	[VERDICT_NOT_READY] = { NAK_SILENCE },
	[VERDICT_OUT_OF_ORDER] = { NAK_SILENCE },
	[VERDICT_NO_RECEIVE] = { NAK_RNR },
	[VERDICT_TOO_LONG] = { NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR, true },
	[VERDICT_RECEIVE_FAULT] = { NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR, true },
	[VERDICT_INVALID] = { NAK_INVALID_REQUEST, 0, true, IBV_EVENT_QP_REQ_ERR + 1 },
	/* a receive is there if it was a WRITE_WITH_IMM (IBA 11.6.2) */
	[VERDICT_ACCESS] = { NAK_REMOTE_ACCESS, IBV_WC_LOC_ACCESS_ERR, true,
			     IBV_EVENT_QP_ACCESS_ERR + 1 },
	/* class J: the requester is not told, and finds out by its time-outs (IBA 9.9.6.3) */
	[VERDICT_INVALIDATE] = { NAK_SILENCE, IBV_WC_REM_INV_REQ_ERR, true },
	[VERDICT_REVOKING] = { NAK_RNR },
};

/* What the requester's cause is, where it differs from ours. */
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

/* RING-4: before the program can know that its message came, and answer, the peer can. */
static void acknowledge(struct link *link)
{
	uint64_t end = link->rx_end, hold = link->rx.hold;

	atomic_store_explicit(&link->carried_out, end < hold ? end : hold, memory_order_release);
	ring_acknowledge(&link->rx, end);
}

static void complete(struct qp *qp, const struct record_header *header, enum ibv_wc_opcode opcode,
		     uint32_t length, uint32_t wc_flags)
{
	struct link *link = shm_of(qp)->link;
	const struct receive_end end = {
		.opcode = opcode,
		.status = IBV_WC_SUCCESS,
		.byte_len = length,
		.wc_flags = wc_flags,
		.imm = header->imm,
		.src_qp = header->src_qpn,
		.solicited = record_flags(header) & RECORD_SOLICITED,
	};

	if (link)
		acknowledge(link);
	receive_complete(qp, &end);
}

/*
 * Puts a verdict into effect. The QP's own completions and state come before the NAK: by the time
 * the requester knows, this end is in ERR (CONTRACT 15).
 */
static void react(struct qp *qp, struct link *link, enum verdict verdict, enum cause cause,
		  const struct record_header *header, uint64_t begin) NO_LOCK_CHECK
{
	const struct reaction *reaction = &reactions[verdict];
	struct shm_qp *lq = shm_of(qp);
	struct nak_pending nak = {
		.msn = header->msn,
		.nak = reaction->nak,
		.timer = verdict == VERDICT_REVOKING ? NAK_UNCOUNTED | REVOKE_TIMER
						     : qp->attr.min_rnr_timer,
		.cause = cause_for_peer(verdict, cause),
	};

	lq->in_message = false;
	if (!qp_is_reliable(qp)) {
		if (verdict == VERDICT_RECEIVE_FAULT) {
			receive_blame(qp, (enum ibv_wc_status)reaction->receive_status, cause);
			qp_fail(qp, cause);
			return;
		}
		lq->dropping = !(record_flags(header) & RECORD_LAST);
		lq->revoked = 0;
		if (verdict != VERDICT_STALE && verdict != VERDICT_NOT_READY)
			cause_report_ratelimited(CAUSE_UC_DROPPED, qp->ib.qp_num, "message %u from 0x%06x: %s",
				     record_msn(header), header->src_qpn, cause_sentence(cause));
		return;
	}
	if (reaction->fails_qp) {
		cause_report(cause, qp->ib.qp_num,
			     "message %u from QP 0x%06x, rkey 0x%x, address 0x%llx, length %u",
			     record_msn(header), header->src_qpn, header->rkey,
			     (unsigned long long)header->remote_addr, header->total);
		if (reaction->receive_status) {
			receive_blame(qp, (enum ibv_wc_status)reaction->receive_status, cause);
		}
		shm_answer_send(qp); /* what is owed for earlier requests, if there is room */
		if (reaction->event)
			qp_raise(qp, (enum ibv_event_type)(reaction->event - 1));
		qp_fail(qp, cause);
	}
	lq->nak_sent = true;
	lq->nak_sent_attempt = header->msn >> 24;
	nak.position = begin;
	shm_answer_nak(qp, link, header->src_qpn, &nak);
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

/* The middle of a message is not answered: its ends are. */
static bool is_answered(const struct record_header *header)
{
	return record_flags(header) & (RECORD_FIRST | RECORD_LAST);
}

/* The service, the state, the connection, the order: IBA 9.7.4.1.1. */
static enum verdict check_connection(struct qp *qp, struct link *link,
				     const struct record_header *header)
{
	struct shm_qp *lq = shm_of(qp);
	enum ibv_qp_state state = qp_state(qp);
	bool first = record_flags(header) & RECORD_FIRST;

	if (!is_of_service(qp, header))
		return is_answered(header) ? VERDICT_UNREACHABLE : VERDICT_STALE;
	/* its process was not known yet when the QP was connected */
	if (!lq->link && link->slot == qp->attr.dest_qp_num >> ARENA_QP_BITS &&
	    (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	    shm_env.gid_is_local(&qp->attr.ah_attr.grh.dgid)) {
		link_get(link);
		lq->link = link;
	}
	if ((state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD &&
	     state != IBV_QPS_SQE) ||
	    lq->link != link || qp->attr.dest_qp_num != header->src_qpn)
		return is_answered(header) ? VERDICT_NOT_READY : VERDICT_STALE;
	if (!lq->expecting) {
		lq->expecting = true;
		lq->expected_msn = qp->attr.rq_psn & MSN_MASK;
	}
	if (qp->type == IBV_QPT_UC) {
		/* what was begun and not ended is lost (IBA 9.8.2.2.2) */
		if (first)
			lq->in_message = lq->dropping = false;
		return !first && (lq->dropping || !lq->in_message) ? VERDICT_STALE : VERDICT_OK;
	}
	/* A message without its beginning is as much out of order as one that was not expected. */
	if (record_msn(header) != lq->expected_msn || (!first && !lq->in_message))
		return lq->nak_sent && lq->nak_sent_attempt == header->msn >> 24 ? VERDICT_STALE :
									     VERDICT_OUT_OF_ORDER;
	lq->nak_sent = false;
	return VERDICT_OK;
}

static enum verdict on_send(struct qp *qp, const struct record_header *header,
			    const uint8_t *payload, enum cause *cause)
{
	struct shm_qp *lq = shm_of(qp);
	uint32_t flags = record_flags(header);
	uint32_t wc_flags = 0;

	if (flags & RECORD_FIRST) {
		if (!receive_take(qp)) {
			*cause = CAUSE_NO_RECEIVE;
			return VERDICT_NO_RECEIVE;
		}
		if (header->total > qp->receive.length) {
			*cause = CAUSE_RECEIVE_TOO_SHORT;
			return VERDICT_TOO_LONG;
		}
	}
	if (header->bytes > lq->message_total - lq->received || !qp->has_receive) {
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	*cause = receive_scatter(qp, lq->received, payload, header->bytes);
	if (*cause != CAUSE_NONE)
		return VERDICT_RECEIVE_FAULT;
	lq->received += header->bytes;
	if (!(flags & RECORD_LAST))
		return VERDICT_OK;
	if (flags & RECORD_INV) {
		*cause = mw_invalidate_once(header->imm, qp->remote_pd, qp->ib.qp_num,
					    &lq->revoked);
		if (*cause != CAUSE_NONE)
			return *cause == CAUSE_COPY_UNFINISHED ? VERDICT_REVOKING
							       : VERDICT_INVALIDATE;
		wc_flags |= IBV_WC_WITH_INV;
	}
	if (flags & RECORD_IMM)
		wc_flags |= IBV_WC_WITH_IMM;
	complete(qp, header, IBV_WC_RECV, lq->received, wc_flags);
	return VERDICT_OK;
}

static enum verdict on_write(struct qp *qp, const struct record_header *header,
			     const uint8_t *payload, enum cause *cause)
{
	struct shm_qp *lq = shm_of(qp);
	uint32_t flags = record_flags(header);
	uint32_t left = lq->message_total - lq->received;

	if (header->bytes > left) {
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		*cause = CAUSE_QP_ACCESS;
	else if (header->total)
		*cause = memory_write_remote(qp_peer(qp), header->rkey, header->remote_addr + lq->received,
					     left, payload, header->bytes);
	else
		*cause = CAUSE_NONE;
	if (*cause != CAUSE_NONE) {
		if (flags & RECORD_IMM)
			receive_take(qp); /* which fails with it */
		return VERDICT_ACCESS;
	}
	lq->received += header->bytes;
	if (!(flags & RECORD_LAST) || !(flags & RECORD_IMM))
		return VERDICT_OK;
	if (!receive_take(qp)) {
		*cause = CAUSE_NO_RECEIVE;
		return VERDICT_NO_RECEIVE;
	}
	complete(qp, header, IBV_WC_RECV_RDMA_WITH_IMM, lq->received, IBV_WC_WITH_IMM);
	return VERDICT_OK;
}

static enum verdict on_read(struct qp *qp, const struct record_header *header, enum cause *cause)
{
	enum key_verdict verdict = KEY_OK;
	uint64_t host;
	uint32_t flags;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	if (header->total)
		verdict = key_check(key_table(), header->rkey, qp->remote_pd, qp->ib.qp_num,
				    header->remote_addr, header->total, IBV_ACCESS_REMOTE_READ,
				    &host, &flags);
	if (verdict != KEY_OK) {
		*cause = key_cause_remote(verdict);
		return VERDICT_ACCESS;
	}
	if (!shm_answer_add(qp, header, 0)) {
		*cause = CAUSE_READ_ATOMIC_OVERFLOW;
		return VERDICT_INVALID;
	}
	return VERDICT_OK;
}

static enum verdict on_atomic(struct qp *qp, const struct record_header *header,
			      const uint8_t *payload, enum cause *cause)
{
	uint64_t operands[2], before;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	if (header->bytes != sizeof(operands)) {
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	if (header->remote_addr % 8) {
		*cause = CAUSE_ATOMIC_UNALIGNED;
		return VERDICT_INVALID;
	}
	if (!shm_answer_has_room(qp)) {
		*cause = CAUSE_READ_ATOMIC_OVERFLOW;
		return VERDICT_INVALID;
	}
	memcpy(operands, payload, sizeof(operands));
	*cause = atomic_execute(qp, record_kind(header) == RECORD_COMPARE_SWAP, header->rkey, header->remote_addr,
				operands[0], operands[1], &before);
	if (*cause != CAUSE_NONE)
		return VERDICT_ACCESS;
	shm_answer_add(qp, header, before);
	return VERDICT_OK;
}

static enum verdict on_atomic_write(struct qp *qp, const struct record_header *header,
				    const uint8_t *payload, enum cause *cause)
{
	uint64_t value;

	if (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_ACCESS;
	}
	if (header->bytes != sizeof(value)) {
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	if (header->remote_addr % 8) {
		*cause = CAUSE_ATOMIC_UNALIGNED;
		return VERDICT_INVALID;
	}
	memcpy(&value, payload, sizeof(value));
	*cause = atomic_write(qp, header->rkey, header->remote_addr, value);
	return *cause == CAUSE_NONE ? VERDICT_OK : VERDICT_ACCESS;
}

/* What was written before is visible; what is checked is whether the peer may ask (IBA 9.7.4.1.10). */
static enum verdict on_flush(struct qp *qp, const struct record_header *header, enum cause *cause)
{
	uint32_t types = header->imm & 0xf, level = header->imm >> 4;

	if (!flush_is_valid(types, level)) {
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	if (!flush_is_allowed(qp, types)) {
		*cause = CAUSE_QP_ACCESS;
		return VERDICT_INVALID;
	}
	*cause = memory_flush_remote(qp_peer(qp), header->rkey, header->remote_addr, header->total,
				     flush_rights(types), level == NEWER_FLUSH_MR);
	return *cause == CAUSE_NONE ? VERDICT_OK : VERDICT_ACCESS;
}

/* The record says a place in this process. */
static uint32_t number_of(uint16_t place)
{
	return memory_slot() << XRC_PLACE_BITS | place;
}

static enum verdict carry_out(struct qp *qp, const struct record_header *header,
			      const uint8_t *payload, enum cause *cause)
{
	struct shm_qp *lq = shm_of(qp);

	if (record_flags(header) & RECORD_FIRST) {
		if (qp->type == IBV_QPT_XRC_RECV && !xrc_select(qp, number_of(header->srqn))) {
			*cause = CAUSE_XRC_SRQ_UNKNOWN;
			return VERDICT_INVALID;
		}
		lq->received = 0;
		lq->message_total = header->total;
		lq->message_kind = (uint8_t)record_kind(header);
	} else if (record_kind(header) != lq->message_kind) {
		/* what was checked at its FIRST does not hold for it (IBA 9.7.4.1.2) */
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
	switch (record_kind(header)) {
	case RECORD_SEND:
		return on_send(qp, header, payload, cause);
	case RECORD_WRITE:
		return on_write(qp, header, payload, cause);
	case RECORD_READ:
		return qp_is_reliable(qp) ? on_read(qp, header, cause) : VERDICT_INVALID;
	case RECORD_COMPARE_SWAP:
	case RECORD_FETCH_ADD:
		return qp_is_reliable(qp) ? on_atomic(qp, header, payload, cause) :
						VERDICT_INVALID;
	case RECORD_ATOMIC_WRITE:
		return qp_is_reliable(qp) ? on_atomic_write(qp, header, payload, cause) :
						VERDICT_INVALID;
	case RECORD_FLUSH:
		return qp_is_reliable(qp) ? on_flush(qp, header, cause) : VERDICT_INVALID;
	default:
		*cause = CAUSE_PEER_DISORDERLY;
		return VERDICT_INVALID;
	}
}

/* If the QP is not connected to the sender, nothing of it may change. */
static bool refuse(struct link *link, const struct record_header *header, enum verdict verdict)
{
	bool never = verdict == VERDICT_UNREACHABLE;
	enum cause cause = never ? CAUSE_PEER_OTHER_SERVICE : CAUSE_PEER_NOT_READY;

	if (!shm_answer_refuse(link, header, (enum nak)reactions[verdict].nak, cause))
		return false;
	if (never && record_flags(header) & RECORD_FIRST)
		cause_report_ratelimited(cause, header->dst_qpn, "QP 0x%06x sends to it", header->src_qpn);
	return true;
}

bool shm_responder_without_qp(struct link *link, const struct record_header *header)
{
	struct qp *qp;
	bool of_service;

	if (!is_answered(header))
		return true;
	qp = qp_find_locked(header->dst_qpn);
	if (!qp)
		return shm_answer_refuse(link, header, NAK_UNREACHABLE, CAUSE_PEER_QP_MISSING);
	of_service = is_of_service(qp, header);
	qp_unlock(qp);
	return refuse(link, header, of_service ? VERDICT_NOT_READY : VERDICT_UNREACHABLE);
}

bool shm_responder_on_request(struct qp *qp, struct link *link, const struct record_header *header,
			  const uint8_t *payload, uint64_t end)
{
	struct shm_qp *lq = shm_of(qp);
	uint64_t begin = end - record_size(header);
	enum cause cause = CAUSE_PEER_NOT_READY;
	enum verdict verdict = check_connection(qp, link, header);

	if (verdict == VERDICT_OK && qp_state(qp) == IBV_QPS_RTR && !qp->comm_established) {
		qp->comm_established = true;
		qp_raise(qp, IBV_EVENT_COMM_EST);
	}
	if (verdict == VERDICT_OK)
		verdict = carry_out(qp, header, payload, &cause);
	switch (verdict) {
	case VERDICT_OK:
		lq->in_message = !(record_flags(header) & RECORD_LAST);
		if (!lq->in_message)
			lq->expected_msn = msn_next(lq->expected_msn);
		if (shm_answer_is_owed(qp))
			shm_answer_send(qp);
		break;
	case VERDICT_STALE:
		break;
	case VERDICT_UNREACHABLE:
	case VERDICT_NOT_READY:
	case VERDICT_OUT_OF_ORDER:
		if (!refuse(link, header, verdict))
			return false;
		if (verdict == VERDICT_OUT_OF_ORDER) {
			lq->nak_sent = true;
			lq->nak_sent_attempt = header->msn >> 24;
		}
		break;
	default:
		react(qp, link, verdict, cause, header, begin);
	}
	return true;
}

void shm_responder_stop(struct qp *qp)
{
	struct shm_qp *lq = shm_of(qp);

	shm_answer_forget(qp);
	lq->in_message = lq->dropping = lq->nak_sent = lq->expecting = false;
	lq->revoked = 0;
	receive_stop(qp);
}
