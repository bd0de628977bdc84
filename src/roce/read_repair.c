/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/read_repair.h"

#include "base/check.h"
#include "base/counter.h"
#include "packet/kept.h"
#include "roce/burst.h"
#include "roce/flush_list.h"
#include "roce/payload.h"
#include "roce/qp_timer.h"
#include "roce/repair.h"
#include "roce/request.h"
#include "roce/sendq.h"
#include "roce/transmit.h"

static psn_t later(psn_t a, psn_t b)
{
	return psn_after(a, b) ? a : b;
}

void read_repair_start(struct roce_qp *tq)
{
	tq->read_repair = (struct read_repair){ .asked = tq->una_psn,
						.next = tq->una_psn,
						.anew = tq->una_psn };
}

static void close(struct read_repair *repair)
{
	repair->open = repair->pending = false;
	repair->run = 0;
}

static void drop_kept(struct read_repair *repair)
{
	kept_fini(&repair->kept);
	if (repair->ack)
		kept_free(NULL, repair->ack);
	repair->ack = NULL;
}

static bool keeps_any(const struct read_repair *repair)
{
	return kept_any(repair->kept) || repair->ack;
}

static bool has_outstanding(const struct roce_qp *tq)
{
	return tq->outstanding_head != tq->outstanding_tail;
}

void read_repair_stop(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;

	close(repair);
	drop_kept(repair);
	if (has_outstanding(tq))
		repair->anew =
			later(repair->anew, outstanding_at(tq, tq->outstanding_tail - 1)->end);
}

/* The PSN of the next response; there is one outstanding. */
static psn_t next_response(const struct roce_qp *tq)
{
	return later(tq->una_psn, outstanding_at(tq, tq->outstanding_head)->first);
}

/* A response is what the requester waits for, of an original execution so far. */
static bool can_help(const struct roce_qp *tq)
{
	return !tq->read_repair.distrusted && has_outstanding(tq) &&
	       psn_equal(next_response(tq), tq->una_psn) &&
	       !psn_before(tq->una_psn, tq->read_repair.anew);
}

static bool admit(struct roce_qp *tq)
{
	if (!tq->read_repair.skip)
		return can_help(tq) && !repair_exceeds_kept(tq);
	tq->read_repair.skip--;
	return false;
}

/* Asks for what is missing from `next` to before `seen`, at the flush. */
static void ask(struct roce_qp *tq)
{
	if (!psn_before(tq->read_repair.next, tq->read_repair.seen))
		return;
	tq->read_repair.pending = true;
	flush_list_add(tq);
}

/* Of an acknowledgement or a NAK: what is before it was executed. */
static psn_t executed_before(const struct packet *ack)
{
	return (ack->syndrome & PACKET_SYNDROME_MASK) == PACKET_SYNDROME_ACK ? psn_add(ack->psn, 1)
									     : ack->psn;
}

/* The last one says all that those before it said. */
static void keep_ack(struct read_repair *repair, const struct packet *ack)
{
	struct kept_packet *copy;

	if (repair->ack && psn_before(ack->psn, repair->ack->packet.psn))
		return;
	copy = kept_copy(ack);
	if (!copy)
		return;
	if (repair->ack)
		kept_free(NULL, repair->ack);
	repair->ack = copy;
	repair->seen = later(repair->seen, executed_before(ack));
}

bool read_repair_keep(struct roce_qp *tq, const struct packet *packet)
{
	struct read_repair *repair = &tq->read_repair;

	if (!repair->open)
		return false;
	repair->run = 0; /* something comes */
	if (packet_opcode(packet->opcode)->kind == PACKET_ACK) {
		keep_ack(repair, packet);
	} else if (kept_add(&repair->kept, tq->una_psn, packet)) {
		tq->uncounted_kept++;
		repair->seen = later(repair->seen, packet->psn);
	}
	ask(tq);
	return true;
}

bool read_repair_begin(struct roce_qp *tq, const struct packet *packet)
{
	struct read_repair *repair = &tq->read_repair;

	if (!admit(tq))
		return false;
	repair->open = true;
	repair->seen = repair->next = tq->una_psn;
	read_repair_keep(tq, packet);
	if (!keeps_any(repair))
		close(repair);
	return repair->open;
}

bool read_repair_on_nak(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;

	if (!repair->trusted || !admit(tq))
		return false;
	if (!repair->open)
		repair->seen = tq->una_psn;
	repair->seen = later(repair->seen, outstanding_at(tq, tq->outstanding_head)->end);
	repair->open = true;
	repair->next = tq->una_psn;
	ask(tq);
	return true;
}

bool read_repair_is_possible(const struct roce_qp *tq)
{
	const struct read_repair *repair = &tq->read_repair;

	return (repair->open || repair->trusted) && repair->tries < REPAIR_TRIES && can_help(tq);
}

/* Nothing is known to be lost: asks for one outstanding READ, then for twice as many. */
static void extend_run(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;
	uint32_t count = tq->outstanding_tail - tq->outstanding_head;

	repair->run = repair->run ? 2 * repair->run : 1;
	if (repair->run > count)
		repair->run = count;
	repair->seen = outstanding_at(tq, tq->outstanding_head + repair->run - 1)->end;
}

static enum read_repair_result fail(struct read_repair *repair)
{
	if (repair->misses < REPAIR_SKIP_MAX)
		repair->misses++;
	repair->skip = (uint8_t)((1u << repair->misses) - 1);
	repair->trusted = false;
	return READ_REPAIR_FAILED;
}

bool read_repair_again(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;

	if (!read_repair_is_possible(tq)) {
		/* it takes no such requests, or has no copies */
		if (repair->open && !repair->trusted && repair->tries == REPAIR_TRIES)
			fail(repair);
		return false;
	}
	repair->tries++;
	if (!keeps_any(repair)) {
		repair->sent = tq->next_psn;
		extend_run(tq);
	}
	repair->open = true;
	repair->next = tq->una_psn;
	ask(tq);
	return true;
}

/* It says that it is of the original execution. */
static enum read_repair_result on_marked(struct roce_qp *tq, psn_t psn)
{
	struct read_repair *repair = &tq->read_repair;

	if (!psn_before(psn, repair->asked)) {
		repair->distrusted = true;
		return repair->open ? fail(repair) : READ_REPAIR_GOES_ON;
	}
	if (psn_before(psn, repair->anew) && repair->newer && !repair->distrusted &&
	    tq->backoff < READ_REPAIR_REFUSING_RTOS)
		return READ_REPAIR_REFUSED; /* late, of before the requester went back */
	if (repair->open) {
		repair->trusted = true;
		repair->misses = 0;
		ask(tq);
	}
	return READ_REPAIR_GOES_ON;
}

enum read_repair_result read_repair_on_response(struct roce_qp *tq, const struct packet *packet)
{
	struct read_repair *repair = &tq->read_repair;
	bool asked = psn_before(packet->psn, repair->asked);
	bool overtaken = psn_before(packet->psn, repair->seen);

	if (packet->original)
		return on_marked(tq, packet->psn);
	if (!repair->open || (!keeps_any(repair) && has_outstanding(tq) &&
			      psn_equal(packet->psn, next_response(tq)))) {
		enum read_repair_result result =
			repair->open ? READ_REPAIR_LATE : READ_REPAIR_GOES_ON;

		/* Nothing is kept, and all responses come in order, as after going back. */
		close(repair);
		if (asked)
			repair->anew = later(repair->anew, repair->asked);
		repair->newer |= psn_before(packet->psn, repair->anew);
		return result;
	}
	if (!asked && !overtaken)
		return READ_REPAIR_GOES_ON;
	if (!asked || !overtaken || kept_has(repair->kept, packet->psn))
		return READ_REPAIR_REFUSED;
	repair->newer = true; /* it is taken */
	return fail(repair);
}

struct kept_packet *read_repair_take(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;
	struct kept_packet *packet = NULL;
	bool waits = has_outstanding(tq);
	psn_t next = waits ? next_response(tq) : repair->seen;

	if (waits)
		packet = kept_take(repair->kept, next);
	if (!packet && repair->ack &&
	    (!waits || !psn_before(next, executed_before(&repair->ack->packet)))) {
		packet = repair->ack;
		repair->ack = NULL;
	}
	if (packet || keeps_any(repair) || psn_before(next, repair->seen))
		return packet;
	if (repair->run && waits && psn_before(next, repair->sent)) {
		extend_run(tq); /* what was asked for has come, and what was sent before has not */
		ask(tq);
	} else {
		close(repair);
	}
	return NULL;
}

void read_repair_on_progress(struct roce_qp *tq, psn_t from)
{
	struct read_repair *repair = &tq->read_repair;

	/* also far behind, or they would be ahead once the PSNs have wrapped around */
	repair->asked = later(repair->asked, tq->una_psn);
	repair->next = later(repair->next, tq->una_psn);
	repair->anew = later(repair->anew, tq->una_psn);
	repair->newer &= psn_after(repair->anew, tq->una_psn);
	repair->tries = 0;
	if (kept_any(repair->kept))
		kept_drop(repair->kept, from, tq->una_psn);
}

/* Adds the request for these responses; false: it cannot be sent now. */
static bool add_request(struct roce_qp *tq, struct burst *burst, psn_t psn, uint32_t packets)
{
	struct wqe *wqe = sendq_find(tq, psn);
	struct packet header;
	enum cause cause;

	if (!wqe || !request_takes_response(wqe))
		return false;
	if (operation_has_payload(opcode_operation(wqe->opcode)) &&
	    payload_place(burst, tq->qp, wqe, 0, wqe->length, &cause) != PAYLOAD_PLACED)
		return false;
	header = request_with_response(tq, wqe, psn, packets);
	header.original = true;
	burst_add(burst, &header);
	tq->read_repair.asked = later(tq->read_repair.asked, psn_add(psn, packets));
	return true;
}

/* How many responses in a row are missing, from `psn` to before `end`. */
static uint32_t count_missing(const struct roce_qp *tq, psn_t psn, psn_t end)
{
	uint32_t count = 0;

	while (psn_before(psn_add(psn, count), end) &&
	       !kept_has(tq->read_repair.kept, psn_add(psn, count)))
		count++;
	return count;
}

/*
 * Adds requests for what is missing from `psn` to before `end`, responses of one READ; returns up
 * to where it did. What is missing costs the window as much (window.h).
 */
static psn_t add_missing(struct roce_qp *tq, struct burst *burst, psn_t psn, psn_t end)
{
	while (psn_before(psn, end)) {
		uint32_t missing = count_missing(tq, psn, end);

		if (missing && (burst_is_full(burst) || !add_request(tq, burst, psn, missing)))
			return psn;
		if (missing)
			window_on_gap(&tq->window, missing, tq->next_psn);
		psn = psn_add(psn, missing ? missing : 1);
	}
	return end;
}

/*
 * A responder that may know nothing of this: once a later part of a READ was repeated, Linux's
 * soft-RoCE repeats no earlier one, and others nothing behind the end of a repetition. So it is
 * asked for all of the first READ that is not complete.
 */
static psn_t add_first(struct roce_qp *tq, struct burst *burst)
{
	psn_t end = outstanding_at(tq, tq->outstanding_head)->end;

	if (psn_after(tq->read_repair.next, tq->una_psn) || !can_help(tq) ||
	    !add_request(tq, burst, tq->una_psn, (uint32_t)psn_diff(end, tq->una_psn)))
		return tq->read_repair.next;
	window_on_gap(&tq->window, 1, tq->next_psn);
	return end;
}

/* Returns up to where it did. */
static psn_t add_requests(struct roce_qp *tq, struct burst *burst)
{
	const struct read_repair *repair = &tq->read_repair;

	if (!has_outstanding(tq))
		return repair->next;
	if (!repair->trusted)
		return add_first(tq, burst);
	for (uint32_t i = tq->outstanding_head; i != tq->outstanding_tail; i++) {
		const struct outstanding_read *read = outstanding_at(tq, i);
		psn_t end = psn_before(read->end, repair->seen) ? read->end : repair->seen, until;

		until = add_missing(tq, burst, later(read->first, repair->next), end);
		if (psn_before(until, end))
			return until;
	}
	return repair->seen;
}

/* As many as one burst takes; the others at the next flush. */
void read_repair_send(struct roce_qp *tq)
{
	struct read_repair *repair = &tq->read_repair;
	enum ibv_qp_state state = qp_state(tq->qp);
	enum transmit_result result = TRANSMIT_SENT;
	struct transmit out;
	psn_t next, unsent;
	bool full = false;

	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || !transmit_begin(&out, tq))
		return;
	next = add_requests(tq, out.burst);
	repair->pending = false;
	if (out.burst->count) {
		full = burst_is_full(out.burst);
		qp_count(tq->qp, COUNTER_REPAIRS);
		result = transmit_requests(&out, &unsent);
	}
	if (result == TRANSMIT_FAULT) {
		read_repair_stop(tq);
		sendq_go_back(tq, tq->una_psn);
	} else if (result == TRANSMIT_FULL) {
		repair->pending = true;
		qp_timer_again(tq, out.now_ns + TRANSMIT_AGAIN_NS);
	} else {
		repair->next = later(repair->next, next);
		if (full)
			ask(tq);
	}
	transmit_end(&out);
}

#ifdef VERBATIM_CHECK
/*
 * A repair of responses, between two packets:
 * - nothing is kept or pending unless it is open;
 * - what was asked for, and what is missing, is in flight;
 * - a kept response is behind the one that is missing, and of the first execution (`anew`);
 * - those of kept_check.
 */
void read_repair_check(const struct roce_qp *tq)
{
	const struct read_repair *repair = &tq->read_repair;
	uint32_t qpn = tq->qp->ib.qp_num;

	INVARIANT(repair->open || (!keeps_any(repair) && !repair->pending && !repair->run),
		  "QP 0x%06x: pending %d, run %u", qpn, repair->pending, repair->run);
	INVARIANT(repair->tries <= REPAIR_TRIES && repair->misses <= REPAIR_SKIP_MAX,
		  "QP 0x%06x: tries %u, misses %u", qpn, repair->tries, repair->misses);
	if (!tq->started || !repair->open)
		return;
	INVARIANT(!psn_before(repair->asked, tq->una_psn) &&
			  !psn_before(repair->next, tq->una_psn) &&
			  !psn_after(repair->seen, tq->max_psn) &&
			  !psn_before(tq->una_psn, repair->anew),
		  "QP 0x%06x: una %06x, asked %06x, seen %06x, max %06x, anew %06x", qpn,
		  tq->una_psn.number, repair->asked.number, repair->seen.number, tq->max_psn.number,
		  repair->anew.number);
	if (has_outstanding(tq))
		kept_check(repair->kept, next_response(tq), qpn);
}
#endif
