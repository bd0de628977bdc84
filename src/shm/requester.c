/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/requester.h"

#include <string.h>

#include "base/check.h"
#include "execute/depth.h"
#include "execute/local.h"
#include "memory/bounce.h"
#include "memory/key.h"
#include "memory/memory.h"
#include "object/xrcd.h"
#include "shm/attention.h"
#include "shm/backoff.h"
#include "shm/datagram.h"
#include "shm/onesided.h"
#include "shm/rendezvous.h"
#include "shm/timer.h"
#include "shm/waiting.h"
#include "shm/xcopy.h"

/* The responder copies so much to and from private pages by a bounce buffer (memory/bounce.h). */
#define QUICK_BYTES BOUNCE_BYTES

void shm_requester_on_progress(struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;

	if (shm_sendq_complete(lq) && sq->issue != sq->tail)
		shm_requester_issue(lq);
}

/* Copies part of the message's payload: from the WQE itself, or from the SGEs. */
static enum cause copy_payload(struct shm_qp *lq, struct wqe *wqe, void *to, uint32_t bytes)
{
	struct qp *qp = lq->qp;

	if (wqe->flags & IBV_SEND_INLINE) {
		memcpy(to, wqe->inline_data + wqe->done, bytes);
		return CAUSE_NONE;
	}
	return memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, wqe->done, to, bytes);
}

static enum issue_result fail_local(struct shm_qp *lq, struct wqe *wqe, enum cause cause)
{
	struct qp *qp = lq->qp;
	uint32_t seq = qp->sq.issue++;

	shm_sendq_fail(lq, seq, IBV_WC_LOC_PROT_ERR, cause,
		       "request %u: first SGE lkey 0x%x address 0x%llx length %u", seq,
		       wqe->num_sge ? wqe->sge[0].lkey : 0,
		       wqe->num_sge ? (unsigned long long)wqe->sge[0].addr : 0ull,
		       wqe->num_sge ? wqe->sge[0].length : 0);
	return ISSUE_FAILED;
}

/* The service, which the responder compares with its own. */
static uint32_t service_flags(const struct qp *qp)
{
	return qp->type == IBV_QPT_UC	      ? RECORD_UNACKED
	       : qp->type == IBV_QPT_XRC_SEND ? RECORD_XRC
					      : 0;
}

static uint32_t flags_of(const struct wqe *wqe)
{
	uint32_t flags = wqe->flags & IBV_SEND_SOLICITED ? RECORD_SOLICITED : 0;

	if (opcodes[wqe->opcode].has_imm)
		flags |= RECORD_IMM;
	if (opcodes[wqe->opcode].has_inv)
		flags |= RECORD_INV;
	return flags;
}

static void fill_header(struct shm_qp *lq, struct wqe *wqe, struct record_header *header,
			uint32_t bytes)
{
	struct qp *qp = lq->qp;

	header->dst_qpn = qp->attr.dest_qp_num;
	header->src_qpn = qp->ib.qp_num;
	header->msn = wqe->msn | (uint32_t)lq->attempt << 24;
	header->total = wqe->length;
	header->bytes = (uint16_t)bytes;
	header->srqn = wqe->remote_srqn >> XRC_PLACE_BITS == header->dst_qpn >> ARENA_QP_BITS
			       ? wqe->remote_srqn & (XRC_PLACES - 1)
			       : 0;
	header->imm = wqe->imm;
	header->rkey = wqe->rkey;
	header->remote_addr = wqe->remote_addr;
	header->acked = atomic_load_explicit(&lq->link->executed, memory_order_acquire);
}

/* The other process is woken once, at the end of the turn: see announce. */
static void publish(struct link *link, struct shm_qp *lq, struct record *record, uint32_t word)
	REQUIRES(link->tx_lock)
{
	ring_publish(&link->tx, record, word);
	CHECK(link_check_tx(link));
	lq->published = true;
}

/*
 * Waking the other process may take a system call, so the requester does it only for new records,
 * not after a WRITE or READ that it has executed itself.
 */
static void announce(struct shm_qp *lq)
{
	if (!lq->published)
		return;
	lq->published = false;
	if (!lq->link || !lq->link->alive)
		return;
	attention_announce(lq->link);
}

/* Before the record is published: a thread that sees its acknowledgement finds the entry. */
static void enter_flight(struct link *link, struct shm_qp *lq, uint32_t units)
	REQUIRES(link->tx_lock)
{
	uint32_t tail = atomic_load_explicit(&link->flight_tail, memory_order_relaxed);

	*link_flight(link, tail) = (struct in_flight){
		.end = flight_position(link->tx.tail) + units,
		.qpn = lq->qp->ib.qp_num,
		.epoch = lq->epoch,
		.seq = lq->qp->sq.issue,
	};
	atomic_store_explicit(&link->flight_tail, tail + 1, memory_order_release);
}

static bool flight_is_full(struct link *link) REQUIRES(link->tx_lock)
{
	return link->flight_tail - atomic_load_explicit(&link->flight_head, memory_order_acquire) >=
	       link_flights(link);
}

/* One record of a SEND or WRITE. Its room in the ring comes off the budget. */
static enum issue_result send_piece(struct shm_qp *lq, struct wqe *wqe, int64_t *budget)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;
	uint32_t bytes = wqe->length - wqe->done, in_ring, copied;
	uint32_t flags = (wqe->done ? 0 : RECORD_FIRST) | service_flags(qp);
	enum issue_result result = ISSUE_NO_ROOM;
	struct record_source source;
	struct record *record;
	enum cause cause = CAUSE_NONE;

	if (rendezvous_offer(lq, wqe, &source, &bytes)) {
		flags |= RECORD_BY_KEY;
		in_ring = rendezvous_room(bytes);
		copied = sizeof(source);
	} else {
		if (bytes > RECORD_PAYLOAD_MAX)
			bytes = RECORD_PAYLOAD_MAX;
		in_ring = copied = bytes;
	}
	if (wqe->done + bytes == wqe->length)
		flags |= RECORD_LAST | flags_of(wqe);
	if (flags_of(wqe) & RECORD_IMM)
		flags |= RECORD_IMM;
	lock_acquire(&link->tx_lock);
	record = link->alive && !flight_is_full(link)
			 ? ring_reserve(&link->tx, in_ring, RING_FOR_NAKS)
			 : NULL;
	if (!record)
		goto out;
	fill_header(lq, wqe, &record->header, in_ring);
	if (flags & RECORD_BY_KEY)
		memcpy(record->payload, &source, sizeof(source));
	else
		cause = copy_payload(lq, wqe, record->payload, bytes);
	if (cause != CAUSE_NONE) {
		lock_release(&link->tx_lock);
		return fail_local(lq, wqe, cause);
	}
	if (flags & RECORD_LAST && qp_is_reliable(qp))
		enter_flight(link, lq, record_units(in_ring));
	publish(link, lq, record, record_word(opcode_operation(wqe->opcode), flags, in_ring));
	if (flags & RECORD_BY_KEY)
		wqe->route = ROUTE_FETCHED;
	wqe->done += bytes;
	shm_moved += copied;
	*budget -= (int64_t)in_ring + RECORD_UNIT;
	result = ISSUE_DONE;
out:
	lock_release(&link->tx_lock);
	return result;
}

static enum issue_result send_message(struct shm_qp *lq, struct wqe *wqe, int64_t *budget)
{
	struct qp *qp = lq->qp;
	enum issue_result result;

	if (wqe->done == 0) {
		wqe->msn = lq->next_msn;
		if (wqe->route == ROUTE_FETCHED) /* when it was sent before */
			wqe->route = ROUTE_UNDECIDED;
		if (!(wqe->flags & IBV_SEND_INLINE) && wqe->length > RECORD_PAYLOAD_MAX) {
			/* a long message with a bad SGE must fail before part of it is sent */
			enum cause cause = memory_check(wqe->sge, wqe->num_sge, qp->pd->number, 0);

			if (cause != CAUSE_NONE)
				return fail_local(lq, wqe, cause);
		}
	}
	do {
		if (*budget <= 0)
			return ISSUE_TURN_OVER;
		result = send_piece(lq, wqe, budget);
		if (result != ISSUE_DONE)
			return result;
	} while (wqe->done < wqe->length);
	rendezvous_on_sent(lq, wqe);
	if (qp_is_reliable(qp)) {
		shm_sendq_on_sent(lq, wqe);
	} else {
		lq->next_msn = msn_next(lq->next_msn);
		lq->last_end = link_sent(lq->link);
		wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	}
	return ISSUE_DONE;
}

/*
 * A request of one record: a READ, or what has operands. Those that bring data are completed by
 * their response, others by the acknowledgement of the record.
 */
static enum issue_result send_single(struct shm_qp *lq, struct wqe *wqe)
{
	struct qp *qp = lq->qp;
	struct link *link = lq->link;
	uint32_t limit = depth_of(qp->attr.max_rd_atomic);
	enum operation operation = opcode_operation(wqe->opcode);
	bool responded = operation_brings_data(operation);
	struct operands operands = wqe->operands;
	uint32_t bytes = operation == OPERATION_READ ? 0 : sizeof(operands);
	enum cause cause = CAUSE_NONE;
	struct record *record;

	if (responded && lq->reads >= limit)
		return ISSUE_WAIT;
	if (responded)
		cause = memory_check(wqe->sge, wqe->num_sge, qp->pd->number,
				     IBV_ACCESS_LOCAL_WRITE);
	else if (operation_has_payload(operation))
		cause = copy_payload(lq, wqe, &operands.swap_add, sizeof(operands.swap_add));
	if (cause != CAUSE_NONE)
		return fail_local(lq, wqe, cause);
	wqe->msn = lq->next_msn;
	lock_acquire(&link->tx_lock);
	record = link->alive && (responded || !flight_is_full(link))
			 ? ring_reserve(&link->tx, bytes, RING_FOR_NAKS)
			 : NULL;
	if (record) {
		fill_header(lq, wqe, &record->header, bytes);
		memcpy(record->payload, &operands, bytes);
		if (!responded)
			enter_flight(link, lq, record_units(bytes));
		publish(link, lq, record,
			record_word(operation, RECORD_FIRST | RECORD_LAST | service_flags(qp),
				    bytes));
	}
	lock_release(&link->tx_lock);
	if (!record)
		return ISSUE_NO_ROOM;
	shm_sendq_on_sent(lq, wqe);
	wqe->done = 0; /* from here on: bytes of the response */
	return ISSUE_DONE;
}

/* Where the kernel refuses to copy, pages of the heap are mapped here all the same. */
static bool reaches_target(struct shm_qp *lq, const struct wqe *wqe)
{
	struct link *link = lq->link;

	if (link->xcopy != XCOPY_NONE || (link->xcopy_error && onesided_is_mapped(lq, wqe)))
		return true;
	if (!atomic_load_explicit(&link->xcopy_told, memory_order_relaxed))
		xcopy_explain(link);
	return false;
}

/*
 * A thread of the target that polls executes a small request sooner than the kernel copies, which
 * looks up the process and its pages. Not where the memory is mapped here, and for atomics, which
 * become messages by themselves.
 */
static bool is_quicker_by_message(struct shm_qp *lq, const struct wqe *wqe)
{
	struct link *link = lq->link;

	return link->xcopy == XCOPY_VM && wqe->length <= QUICK_BYTES &&
	       lq->qp->type == IBV_QPT_RC &&
	       !peer_arena_key(&link->arena, KEY_INDEX(wqe->rkey))->heap &&
	       !operation_is_of_a_word(opcode_operation(wqe->opcode)) && attention_expected(link) &&
	       !onesided_is_mapped(lq, wqe);
}

/*
 * The requester executes these on the target's memory if it can copy there, no earlier message is
 * unacknowledged, and a message is not quicker. Otherwise small ones go as messages, and others
 * wait. All wait if what is unacknowledged went by message for that reason alone, and the memory is
 * mapped here: else a full queue would go by message for ever. If a check here fails, the request
 * goes to the responder as a message, for its verdict.
 */
static enum issue_result one_sided(struct shm_qp *lq, struct wqe *wqe, int64_t *budget)
{
	struct qp *qp = lq->qp;

	if (wqe->route == ROUTE_UNDECIDED) {
		/*
		 * an XRC request is checked against the PD of an SRQ, which only the target knows
		 */
		if (qp->type == IBV_QPT_XRC_SEND || !reaches_target(lq, wqe))
			wqe->route = ROUTE_MESSAGE;
		else if (qp->type == IBV_QPT_UC && !link_executed(lq->link, lq->last_end))
			wqe->route = ROUTE_MESSAGE;
		else if (!lq->unacked)
			wqe->route = is_quicker_by_message(lq, wqe) ? ROUTE_QUEUED : ROUTE_DIRECT;
		else if (wqe->length > RECORD_PAYLOAD_MAX ||
			 (onesided_is_mapped(lq, wqe) && lq->queued == lq->unacked))
			return ISSUE_WAIT;
		else
			wqe->route = ROUTE_QUEUED;
	}
	if (wqe->route == ROUTE_DIRECT) {
		enum issue_result result = ISSUE_FAILED;
		enum cause cause;

		switch (onesided_execute(lq, wqe, budget, &cause)) {
		case ONESIDED_DONE:
			wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
			return ISSUE_DONE;
		case ONESIDED_TURN_OVER:
			return ISSUE_TURN_OVER;
		case ONESIDED_LOCAL_ERROR:
			result = fail_local(lq, wqe, cause);
			return result;
		case ONESIDED_BY_MESSAGE:
			wqe->route = ROUTE_MESSAGE;
			wqe->done = 0;
			break;
		}
	}
	return operation_is_message(opcode_operation(wqe->opcode)) ? send_message(lq, wqe, budget)
								   : send_single(lq, wqe);
}

static enum issue_result unreachable(struct shm_qp *lq, struct wqe *wqe)
{
	struct qp *qp = lq->qp;

	if (!qp_is_reliable(qp)) {
		wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
		return ISSUE_DONE;
	}
	wqe->msn = lq->next_msn;
	if (lq->link) {
		shm_backoff_on_loss(lq, qp->sq.issue,
				    lq->link->broken ? CAUSE_RING_OVERWRITTEN : CAUSE_PEER_DIED);
		return ISSUE_WAIT;
	}
	shm_backoff_on_silence(lq, qp->sq.issue,
			       shm_env.peer_is_local(qp) ? CAUSE_PEER_UNKNOWN : CAUSE_NO_PATH);
	return ISSUE_WAIT;
}

/* BIND_MW and LOCAL_INV concern this end only. */
static enum issue_result manage_memory(struct shm_qp *lq, struct wqe *wqe)
{
	struct qp *qp = lq->qp;
	enum cause cause = local_execute(qp, &lq->failure, wqe, lq->looks);

	if (cause == CAUSE_COPY_UNFINISHED) {
		wqe->begun = 1; /* so it is completed even in SQD */
		shm_backoff_on_revocation(lq);
		return ISSUE_WAIT;
	}
	lq->looks = 0;
	return cause == CAUSE_NONE ? ISSUE_DONE : ISSUE_FAILED;
}

static enum issue_result issue_request(struct shm_qp *lq, struct wqe *wqe, int64_t *budget)
{
	struct qp *qp = lq->qp;
	enum operation operation = opcode_operation(wqe->opcode);
	bool asked = false;

	if (qp->type == IBV_QPT_UD)
		return datagram_send(lq, wqe);
	if (operation_is_of_this_end(operation))
		return manage_memory(lq, wqe);
	if (wqe_length_is_wrong(wqe)) {
		shm_sendq_fail(lq, qp->sq.issue++, IBV_WC_LOC_LEN_ERR, CAUSE_ATOMIC_LENGTH,
			       "%u bytes", wqe->length);
		return ISSUE_FAILED;
	}
	if (!lq->link && shm_env.peer_is_local(qp)) {
		lq->link = shm_env.find_link(qp->attr.dest_qp_num >> ARENA_QP_BITS, &asked);
		if (!lq->link && asked && shm_backoff_on_unknown(lq))
			return ISSUE_WAIT;
		lq->sought = false;
	}
	if (!lq->link || !lq->link->alive)
		return unreachable(lq, wqe);
	if (operation == OPERATION_SEND || opcodes[wqe->opcode].has_imm)
		return send_message(lq, wqe, budget);
	if (operation == OPERATION_FLUSH)
		return send_single(lq, wqe);
	return one_sided(lq, wqe, budget);
}

static void start(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;

	lq->started = true;
	lq->looks = 0;
	lq->by_ring = lq->pause = 0;
	lq->next_msn = qp->attr.sq_psn & MSN_MASK;
	shm_backoff_on_ack(lq);
}

enum issue_result shm_requester_issue(struct shm_qp *lq)
{
	struct qp *qp = lq->qp;
	struct sq *sq = &qp->sq;
	int64_t budget = REQUESTER_TURN_BYTES;
	enum issue_result result = ISSUE_DONE;
	bool stop = false, tried_again = false;
	/* In SQD only a request that was begun continues (IBA 10.3.1.5). */
	bool drain = qp_state(qp) == IBV_QPS_SQD && sq->issue != sq->tail &&
		     wqe_is_begun(sq_wqe(sq, sq->issue));

	if (lq->state != REQUESTER_READY || lq->failure.pending || lq->gated ||
	    (qp_state(qp) != IBV_QPS_RTS && !drain))
		return ISSUE_WAIT;
	if (!lq->started)
		start(lq);
	shm_timer_on_look(lq);
	while (!stop && sq->issue != sq->tail) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		if (wqe->state == WQE_DONE) { /* before the requester went back */
			sq->issue++;
			continue;
		}
		if (wqe->flags & IBV_SEND_FENCE && wqe->done == 0 && lq->reads)
			break;
		result = issue_request(lq, wqe, &budget);
		switch (result) {
		case ISSUE_DONE:
			sq->issue++;
			stop = drain &&
			       (sq->issue == sq->tail || !wqe_is_begun(sq_wqe(sq, sq->issue)));
			break;
		case ISSUE_NO_ROOM:
			if (lq->link)
				shm_waiting_for_room(lq, lq->link);
			/*
			 * Barrier ROOM: once more, now that the QP is in the list. The peer may
			 * have made room, and the thread that it woke looked at the list, just
			 * before.
			 */
			atomic_thread_fence(memory_order_seq_cst);
			stop = tried_again;
			tried_again = true;
			if (!stop)
				shm_backoff_on_room(
					lq); /* for a datagram, which is tried again, too */
			break;
		case ISSUE_TURN_OVER:
			shm_waiting_for_turn(lq, lq->link);
			atomic_store_explicit(&lq->link->again, true, memory_order_relaxed);
			shm_env.kick();
			stop = true;
			break;
		case ISSUE_WAIT:
			stop = true;
			break;
		case ISSUE_FAILED:
			announce(lq);
			return ISSUE_FAILED;
		}
	}
	qp_retire(qp);
	announce(lq);
	return result;
}
