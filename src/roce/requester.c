/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/requester.h"

#include "execute/local.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "roce/burst.h"
#include "roce/completer.h"
#include "roce/payload.h"
#include "roce/qp_timer.h"
#include "roce/read_repair.h"
#include "roce/repair.h"
#include "roce/request.h"
#include "roce/retransmit.h"
#include "roce/sendq.h"
#include "roce/transmit.h"

enum issue_result {
	ISSUE_DONE,   /* on to the next request */
	ISSUE_WAIT,   /* for the window, for responses, for a timer */
	ISSUE_FAILED, /* sendq_fail was called */
};

/* One call of requester_transmit. */
struct issue {
	struct roce_qp *tq;
	struct transmit out;
	uint32_t allowed, turn; /* UC: packets that the call may send, and that are left of these */
};

static uint32_t room_in_window(const struct issue *it)
{
	uint32_t used = sendq_in_flight(it->tq), size;

	if (!qp_is_reliable(it->tq->qp))
		return it->turn;
	size = repair_window(it->tq);
	return used < size ? size - used : 0;
}

static enum issue_result fail_local(struct roce_qp *tq, enum cause cause)
{
	struct qp *qp = tq->qp;
	uint32_t seq = qp->sq.issue++;
	struct wqe *wqe = sq_wqe(&qp->sq, seq);
	bool has_sge = !(wqe->flags & IBV_SEND_INLINE) && wqe->num_sge;

	sendq_fail(tq, seq, IBV_WC_LOC_PROT_ERR, cause,
		   "request %u: first SGE lkey 0x%x address 0x%llx length %u", seq,
		   has_sge ? wqe->sge[0].lkey : 0,
		   has_sge ? (unsigned long long)wqe->sge[0].addr : 0ull,
		   has_sge ? wqe->sge[0].length : 0);
	return ISSUE_FAILED;
}

/* All packets before next_psn were sent. */
static void note_sent(struct roce_qp *tq)
{
	if (psn_after(tq->next_psn, tq->max_psn))
		tq->max_psn = tq->next_psn;
	if (!qp_is_reliable(tq->qp))
		completer_on_sent(tq);
}

/* The socket was full from the packet `unsent` on. */
static void on_full(struct roce_qp *tq, psn_t unsent, uint64_t now_ns)
{
	sendq_go_back(tq, unsent);
	note_sent(tq);
	tq->since_ack_req++; /* perhaps a packet with AckReq was not sent */
	if (!sendq_in_flight(tq))
		retransmit_on_held_up(tq);
	qp_timer_again(tq, now_ns + TRANSMIT_AGAIN_NS);
}

/*
 * Sends the burst. After ISSUE_WAIT the requester went back to the first packet that was not sent,
 * so sq.issue and next_psn have changed.
 */
static enum issue_result flush(struct issue *it)
{
	struct roce_qp *tq = it->tq;
	psn_t unsent = tq->next_psn;

	switch (transmit_requests(&it->out, &unsent)) {
	case TRANSMIT_FULL:
		on_full(tq, unsent, it->out.now_ns);
		return ISSUE_WAIT;
	case TRANSMIT_FAULT:
		sendq_go_back(tq, unsent);
		note_sent(tq);
		return fail_local(tq, CAUSE_MEMORY_FAULT_LOCAL);
	case TRANSMIT_SENT:
	default:
		note_sent(tq);
		return ISSUE_DONE;
	}
}

/* Sends the requests before the one that fails, so that their completions come first. */
static enum issue_result flush_and_fail(struct issue *it, enum cause cause)
{
	enum issue_result result = flush(it);

	return result == ISSUE_DONE ? fail_local(it->tq, cause) : result;
}

static bool wants_ack(struct issue *it, bool last)
{
	struct roce_qp *tq = it->tq;

	if (!qp_is_reliable(tq->qp))
		return false;
	if (!last && room_in_window(it) > 1 && ++tq->since_ack_req < REQUESTER_ACK_EVERY)
		return false;
	tq->since_ack_req = 0;
	return true;
}

/* The packet at next_psn of a SEND or WRITE. */
static enum issue_result add_packet(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;
	struct qp *qp = tq->qp;
	uint32_t index = (uint32_t)psn_diff(tq->next_psn, wqe->first_psn);
	uint32_t offset = index * tq->mtu, bytes = wqe->length - offset;
	bool last = bytes <= tq->mtu;
	struct packet header = request_message(tq, wqe, tq->next_psn, last);
	enum cause cause;

	if (!last)
		bytes = tq->mtu;
	switch (payload_place(it->out.burst, qp, wqe, offset, bytes, &cause)) {
	case PAYLOAD_NO_ROOM: {
		enum issue_result result = flush(it);

		/* nothing has changed, except that the window may have more room */
		return result == ISSUE_DONE ? add_packet(it, wqe) : result;
	}
	case PAYLOAD_BAD:
		return flush_and_fail(it, cause);
	case PAYLOAD_PLACED:
		break;
	}
	header.ack_req = wants_ack(it, last);
	if (header.ack_req)
		retransmit_on_ack_requested(tq, header.psn, it->out.now_ns);
	burst_add(it->out.burst, &header);
	if (last)
		burst_end_message(it->out.burst);
	if (!qp_is_reliable(qp))
		it->turn--;
	tq->next_psn = psn_add(tq->next_psn, 1);
	sendq_set_done(tq, wqe);
	return ISSUE_DONE;
}

/*
 * Adds MIDDLE packets after the last one, as far as only PSN and payload differ: a faster way for
 * most of a long message.
 */
static void add_middles(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;
	uint32_t index = (uint32_t)psn_diff(tq->next_psn, wqe->first_psn);
	uint32_t offset = index * tq->mtu, room = room_in_window(it), most, added;

	if (index < 2 || !it->out.burst->count || offset >= wqe->length || room < 3 ||
	    tq->since_ack_req >= REQUESTER_ACK_EVERY - 1)
		return;
	most = (wqe->length - offset - 1) / tq->mtu; /* without LAST */
	/* the last packet in the window requests an acknowledgement */
	if (most > room - 2)
		most = room - 2;
	if (qp_is_reliable(tq->qp) && most > REQUESTER_ACK_EVERY - 1 - tq->since_ack_req)
		most = REQUESTER_ACK_EVERY - 1 - tq->since_ack_req;
	if (!most)
		return;
	most = payload_contiguous(it->out.burst, tq->qp, wqe, offset, most * tq->mtu) / tq->mtu;
	added = burst_repeat(it->out.burst, most);
	if (qp_is_reliable(tq->qp))
		tq->since_ack_req += added;
	else
		it->turn -= added;
	tq->next_psn = psn_add(tq->next_psn, added);
	sendq_set_done(tq, wqe);
}

/* Gives a new request its PSNs; a request that was begun before has them. */
static void begin(struct roce_qp *tq, struct wqe *wqe, uint32_t piece)
{
	if (wqe->begun)
		return;
	wqe->begun = 1;
	wqe->first_psn = tq->next_psn;
	wqe->end_psn = psn_add(tq->next_psn, request_psns(tq, wqe));
	wqe->read_piece = (uint16_t)piece;
}

static bool is_start(const struct roce_qp *tq, const struct wqe *wqe)
{
	return !wqe->begun || psn_equal(tq->next_psn, wqe->first_psn);
}

static enum issue_result issued(struct issue *it, struct wqe *wqe)
{
	wqe->state = WQE_ISSUED;
	it->tq->qp->sq.issue++;
	return ISSUE_DONE;
}

/*
 * The first packet of a WRITE is longer, so a GSO batch cannot continue from one message to the
 * next. A WRITE that starts in the middle of a burst, or of the window's room, would make two of
 * each GSO batch. So a WRITE that fits a burst starts with one, unless the window is too small to
 * leave room unused.
 */
static enum issue_result align_to_batch(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;
	uint32_t packets = request_psns(tq, wqe);

	if (packets < 2 || packets > WIRE_BURST || !qp_is_reliable(tq->qp))
		return ISSUE_DONE;
	if (sendq_in_flight(tq) && !tq->since_ack_req && room_in_window(it) < packets &&
	    4 * packets <= tq->window.size)
		return ISSUE_WAIT; /* the last packet has requested an acknowledgement */
	return it->out.burst->count + packets > WIRE_BURST ? flush(it) : ISSUE_DONE;
}

static enum issue_result send_message(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;

	if (is_start(tq, wqe) && wqe->length > tq->mtu && !(wqe->flags & IBV_SEND_INLINE)) {
		/* a long message with a bad SGE must fail before part of it is sent */
		enum cause cause = memory_check(wqe->sge, wqe->num_sge, tq->qp->pd->number, 0);

		if (cause != CAUSE_NONE)
			return flush_and_fail(it, cause);
	}
	if (!room_in_window(it))
		return ISSUE_WAIT;
	if (opcode_operation(wqe->opcode) == OPERATION_WRITE && is_start(tq, wqe)) {
		enum issue_result result = align_to_batch(it, wqe);

		if (result != ISSUE_DONE)
			return result;
	}
	begin(tq, wqe, 0);
	while (!psn_equal(tq->next_psn, wqe->end_psn)) {
		enum issue_result result = ISSUE_DONE;

		if (!room_in_window(it))
			return ISSUE_WAIT;
		if (burst_is_full(it->out.burst))
			result = flush(it);
		if (result == ISSUE_DONE)
			result = add_packet(it, wqe);
		if (result != ISSUE_DONE)
			return result;
		add_middles(it, wqe);
	}
	return issued(it, wqe);
}

/* The payload of an ATOMIC WRITE: its 8 bytes. */
static enum issue_result add_operand(struct issue *it, struct wqe *wqe)
{
	enum cause cause;
	enum issue_result result;

	switch (payload_place(it->out.burst, it->tq->qp, wqe, 0, wqe->length, &cause)) {
	case PAYLOAD_PLACED:
		return ISSUE_DONE;
	case PAYLOAD_NO_ROOM:
		result = flush(it);
		return result == ISSUE_DONE ? add_operand(it, wqe) : result;
	case PAYLOAD_BAD:
	default:
		return flush_and_fail(it, cause);
	}
}

/* The request for `packets` response packets from next_psn on. */
static enum issue_result add_request(struct issue *it, struct wqe *wqe, uint32_t packets)
{
	struct roce_qp *tq = it->tq;
	struct packet header = request_with_response(tq, wqe, tq->next_psn, packets);
	enum issue_result result = ISSUE_DONE;

	if (burst_is_full(it->out.burst))
		result = flush(it);
	if (result == ISSUE_DONE && operation_has_payload(opcode_operation(wqe->opcode)))
		result = add_operand(it, wqe);
	if (result != ISSUE_DONE)
		return result;
	retransmit_on_ack_requested(tq, header.psn, it->out.now_ns);
	burst_add(it->out.burst, &header);
	tq->since_ack_req = 0;
	tq->next_psn = psn_add(tq->next_psn, packets);
	*outstanding_at(tq, tq->outstanding_tail++) =
		(struct outstanding_read){ header.psn, tq->next_psn };
	if (opcode_operation(wqe->opcode) == OPERATION_READ)
		sendq_set_done(tq, wqe);
	return ISSUE_DONE;
}

/* A piece may be larger than the window: then it waits until nothing else is in flight. */
static bool window_has_room(struct issue *it, uint32_t packets)
{
	return !sendq_in_flight(it->tq) || room_in_window(it) >= packets;
}

static uint32_t read_limit(const struct qp *qp)
{
	return depth_of(qp->attr.max_rd_atomic);
}

/* The window, or what it soon is again after a probe: a READ keeps its pieces to the end. */
static uint32_t usual_window(const struct roce_qp *tq)
{
	uint32_t start = WINDOW_START_BYTES / (tq->mtu + WIRE_PACKET_EXTRA);
	uint32_t soon = tq->window.threshold < start ? tq->window.threshold : start;

	return tq->window.size > soon ? tq->window.size : soon;
}

/* Several pieces of a READ keep the responder busy, if so many may be outstanding. */
static uint32_t choose_piece(const struct issue *it)
{
	uint32_t limit = read_limit(it->tq->qp), pieces = limit < READ_PIECES ? limit : READ_PIECES;
	uint32_t piece = usual_window(it->tq) / pieces;

	return piece > READ_PIECE_MIN ? piece : READ_PIECE_MIN;
}

static enum issue_result send_with_response(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;
	struct qp *qp = tq->qp;

	if (is_start(tq, wqe) && !request_brings_nothing(wqe)) {
		enum cause cause = memory_check(wqe->sge, wqe->num_sge, qp->pd->number,
						IBV_ACCESS_LOCAL_WRITE);

		if (cause != CAUSE_NONE)
			return flush_and_fail(it, cause);
	}
	if (!room_in_window(it) || tq->outstanding_tail - tq->outstanding_head >= read_limit(qp) ||
	    read_repair_holds(tq))
		return ISSUE_WAIT;
	begin(tq, wqe, choose_piece(it));
	while (!psn_equal(tq->next_psn, wqe->end_psn)) {
		uint32_t piece = request_piece(wqe, tq->next_psn);
		enum issue_result result;

		if (!window_has_room(it, piece) ||
		    tq->outstanding_tail - tq->outstanding_head >= read_limit(qp) ||
		    read_repair_holds(tq))
			return ISSUE_WAIT;
		result = add_request(it, wqe, piece);
		if (result != ISSUE_DONE)
			return result;
	}
	return issued(it, wqe);
}

/* BIND_MW and LOCAL_INV concern this end only. */
static enum issue_result manage_memory(struct issue *it, struct wqe *wqe)
{
	struct roce_qp *tq = it->tq;
	struct qp *qp = tq->qp;
	enum issue_result result = flush(it); /* no key is published when one is revoked */
	enum cause cause = CAUSE_COPY_UNFINISHED;

	if (result != ISSUE_DONE)
		return result;
	if (!tq->revoke_tries || it->out.now_ns >= tq->revoke_ns) {
		cause = local_execute(qp, &tq->failure, wqe, tq->revoke_tries);
		tq->revoke_ns = it->out.now_ns + hazard_pause_ns(tq->revoke_tries++);
	}
	if (cause == CAUSE_COPY_UNFINISHED) {
		/* it continues even in SQD. wqe.begun is not set, as it has no PSNs */
		wqe->done = 1;
		qp_timer_again(tq, tq->revoke_ns);
		return ISSUE_WAIT;
	}
	tq->revoke_tries = 0;
	if (cause != CAUSE_NONE)
		return ISSUE_FAILED;
	qp->sq.issue++;
	return ISSUE_DONE;
}

static enum issue_result fail_length(struct issue *it, const struct wqe *wqe)
{
	enum issue_result result = flush(it);

	if (result != ISSUE_DONE)
		return result;
	sendq_fail(it->tq, it->tq->qp->sq.issue++, IBV_WC_LOC_LEN_ERR, CAUSE_ATOMIC_LENGTH,
		   "%u bytes", wqe->length);
	return ISSUE_FAILED;
}

static enum issue_result fail_opcode(struct issue *it, struct wqe *wqe)
{
	enum issue_result result = flush(it);

	if (result != ISSUE_DONE)
		return result;
	sendq_fail(it->tq, it->tq->qp->sq.issue++, IBV_WC_LOC_QP_OP_ERR, CAUSE_OPCODE_UNSUPPORTED,
		   "opcode %u", wqe->opcode);
	return ISSUE_FAILED;
}

static enum issue_result issue_request(struct issue *it, struct wqe *wqe)
{
	enum operation operation = opcode_operation(wqe->opcode);

	if (wqe_length_is_wrong(wqe))
		return fail_length(it, wqe);
	if (operation_is_of_this_end(operation))
		return manage_memory(it, wqe);
	if (!operation_is_message(operation))
		return send_with_response(it, wqe);
	/* there is no such packet */
	if (opcodes[wqe->opcode].has_inv && !qp_is_reliable(it->tq->qp))
		return fail_opcode(it, wqe);
	return send_message(it, wqe);
}

static void start(struct roce_qp *tq)
{
	tq->started = true;
	tq->revoke_tries = 0;
	tq->next_psn = tq->una_psn = tq->max_psn = psn_of(tq->qp->attr.sq_psn);
	window_start(&tq->window, tq->mtu, tq->flow.buffer_bytes);
	retransmit_start(tq);
}

/* In SQD only a request that was begun continues (IBA 10.3.1.5). */
static bool may_issue(struct qp *qp)
{
	struct sq *sq = &qp->sq;

	if (sq->issue == sq->tail)
		return false;
	return qp_state(qp) == IBV_QPS_RTS ||
	       (qp_state(qp) == IBV_QPS_SQD && wqe_is_begun(sq_wqe(sq, sq->issue)));
}

static enum issue_result issue_all(struct issue *it)
{
	struct qp *qp = it->tq->qp;
	struct sq *sq = &qp->sq;
	enum issue_result result = ISSUE_DONE;

	while (result == ISSUE_DONE && may_issue(qp)) {
		struct wqe *wqe = sq_wqe(sq, sq->issue);

		if (wqe->state == WQE_DONE) { /* before the requester went back */
			sq->issue++;
			continue;
		}
		if (wqe->flags & IBV_SEND_FENCE && is_start(it->tq, wqe) &&
		    it->tq->outstanding_head != it->tq->outstanding_tail)
			break;
		result = issue_request(it, wqe);
	}
	if (result != ISSUE_FAILED && it->out.burst->count)
		result = flush(it);
	return result;
}

/* The bytes of a packet for the pace. */
static uint32_t packet_cost(const struct roce_qp *tq)
{
	return tq->mtu + WIRE_PACKET_EXTRA;
}

/* UC: requests beyond the pace follow later. */
static void end_turn(struct issue *it)
{
	pace_use(&it->tq->pace, (it->allowed - it->turn) * packet_cost(it->tq));
	if (!it->turn && may_issue(it->tq->qp))
		qp_timer_again(it->tq, it->out.now_ns + PACE_INTERVAL_NS);
}

/*
 * The window opens a little with each acknowledgement. Filling it each time would make many short
 * GSO batches, and as many acknowledgements. So the requester waits until a good part of it is
 * open. More acknowledgements will come: the last packet sent has requested one.
 */
static bool waits_for_room(const struct roce_qp *tq)
{
	uint32_t used = sendq_in_flight(tq), size = repair_window(tq);
	uint32_t enough = size / 4 < REQUESTER_ENOUGH ? size / 4 : REQUESTER_ENOUGH;

	return used && !tq->since_ack_req && qp_is_reliable(tq->qp) && used + enough > size;
}

/*
 * The same for small READs and atomics: each response lets one more be outstanding, and they would
 * leave one by one, as their responses come. So the requester waits until half of those allowed are
 * not outstanding. Then one half is on its way while the other half is answered.
 */
static bool waits_for_responses(const struct roce_qp *tq)
{
	struct sq *sq = &tq->qp->sq;
	const struct wqe *wqe = sq_wqe(sq, sq->issue);

	return tq->outstanding_tail - tq->outstanding_head > read_limit(tq->qp) / 2 &&
	       request_takes_response(wqe) && !wqe->begun && wqe->length <= tq->mtu;
}

bool requester_may_wait(const struct roce_qp *tq)
{
	struct sq *sq = &tq->qp->sq;
	uint32_t waiting = sq->tail - sq->issue, length = sq_wqe(sq, sq->tail - 1)->length;

	if (sq->issue - sq->head < REQUESTER_MANY || !sendq_in_flight(tq) || tq->since_ack_req ||
	    !qp_is_reliable(tq->qp) || tq->state != REQUESTER_READY)
		return false;
	return length <= tq->mtu && waiting < REQUESTER_ENOUGH && waiting * length < WIRE_GSO_BYTES;
}

void requester_transmit(struct roce_qp *tq)
{
	bool reliable = qp_is_reliable(tq->qp);
	struct issue it = { .tq = tq };
	enum issue_result result;

	if (tq->repair.pending && tq->state == REQUESTER_READY)
		repair_send(tq);
	if (repair_owes_reported(tq) && tq->state == REQUESTER_READY)
		repair_send_reported(tq);
	if (tq->read_repair.pending && tq->state == REQUESTER_READY)
		read_repair_send(tq);
	if (tq->state != REQUESTER_READY || tq->failure.pending || !may_issue(tq->qp))
		return;
	if (!tq->started)
		start(tq);
	if (waits_for_room(tq) || waits_for_responses(tq) || !transmit_begin(&it.out, tq))
		return;
	if (!reliable)
		it.turn = it.allowed =
			pace_allows(&tq->pace, pace_burst(tq->flow.buffer_bytes), it.out.now_ns) /
			packet_cost(tq);
	result = issue_all(&it);
	transmit_end(&it.out);
	if (result != ISSUE_FAILED) {
		if (!reliable)
			end_turn(&it);
		qp_retire(tq->qp);
	}
	/* Also if a request failed: it waits for the acknowledgements of earlier ones. */
	if (sendq_in_flight(tq))
		retransmit_on_sent(tq, it.out.now_ns);
}
