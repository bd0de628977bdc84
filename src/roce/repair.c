/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/repair.h"

#include "base/check.h"
#include "base/counter.h"
#include "packet/kept.h"
#include "roce/burst.h"
#include "roce/flush_list.h"
#include "roce/payload.h"
#include "roce/qp_timer.h"
#include "roce/read_repair.h"
#include "roce/request.h"
#include "roce/sendq.h"
#include "roce/transmit.h"

void repair_start(struct roce_qp *tq)
{
	tq->repair = (struct repair){ .reported_to = tq->una_psn };
}

void repair_stop(struct roce_qp *tq)
{
	tq->repair.open = tq->repair.pending = false;
	tq->repair.run = tq->repair.reports = tq->repair.reports_sent = 0;
	tq->repair.reported_to = tq->una_psn; /* what was kept may be dropped */
}

static void open_run(struct roce_qp *tq)
{
	struct repair *repair = &tq->repair;
	psn_t end = psn_add(tq->una_psn, repair->run);

	repair->open = repair->pending = true;
	repair->end = psn_after(end, tq->next_psn) ? tq->next_psn : end;
	repair->sent = tq->next_psn;
	qp_count(tq->qp, COUNTER_REPAIRS);
	flush_list_add(tq);
}

/* A response completes it, so acknowledgements do not tell whether the responder has what follows.
 */
static bool takes_response(const struct roce_qp *tq, psn_t psn)
{
	const struct wqe *wqe = sendq_find(tq, psn);

	return wqe && request_takes_response(wqe);
}

bool repair_exceeds_kept(const struct roce_qp *tq)
{
	return sendq_in_flight(tq) > kept_most(tq->mtu);
}

bool repair_begin(struct roce_qp *tq)
{
	struct repair *repair = &tq->repair;

	if (!sendq_in_flight(tq) || repair_exceeds_kept(tq) || takes_response(tq, tq->una_psn))
		return false;
	if (repair->skip) {
		repair->skip--;
		return false;
	}
	if (!repair->run)
		repair->run = REPAIR_RUN;
	open_run(tq);
	return true;
}

bool repair_on_report(struct roce_qp *tq, const struct gap *told)
{
	struct repair *repair = &tq->repair;
	psn_t most = psn_add(told->first, REPAIR_REPORT_MAX);
	struct gap gap = { told->first, psn_after(told->end, most) ? most : told->end };

	if (!psn_after(gap.first, tq->una_psn) || !psn_after(told->end, gap.first) ||
	    psn_after(told->end, tq->next_psn) || repair->reports == GAPS_MAX)
		return false;
	for (uint32_t i = 0; i < repair->reports; i++)
		if (psn_before(gap.first, repair->reported[i].gap.end) &&
		    psn_after(gap.end, repair->reported[i].gap.first))
			return false;
	if (psn_after(told->end, repair->reported_to))
		repair->reported_to = told->end;
	repair->reported[repair->reports++] =
		(struct reported_gap){ .gap = gap, .next = gap.first };
	flush_list_add(tq);
	return true;
}

bool repair_on_reported(struct roce_qp *tq, uint64_t now_ns)
{
	struct repair *repair = &tq->repair;
	uint64_t trip_ns = tq->rtt_ns ? tq->rtt_ns + tq->rtt_var_ns : REPAIR_WAIT_MIN_NS;

	if (takes_response(tq, tq->una_psn))
		return false;
	for (uint32_t i = 0; i < repair->reports; i++) {
		const struct reported_gap *reported = &repair->reported[i];
		bool sent = i < repair->reports_sent;
		psn_t end = sent ? reported->next : reported->gap.end;

		if (psn_before(tq->una_psn, reported->gap.first) || !psn_before(tq->una_psn, end) ||
		    (sent && now_ns - reported->sent_ns > trip_ns))
			continue;
		repair->open = true;
		repair->pending = false;
		repair->end = end;
		repair->sent = tq->next_psn;
		return true;
	}
	return false;
}

void repair_on_progress(struct roce_qp *tq)
{
	struct repair *repair = &tq->repair;
	uint32_t left = 0, sent = 0;

	if (psn_before(repair->reported_to, tq->una_psn))
		repair->reported_to = tq->una_psn;
	for (uint32_t i = 0; i < repair->reports; i++) {
		if (!psn_after(repair->reported[i].gap.end, tq->una_psn))
			continue;
		sent += i < repair->reports_sent;
		repair->reported[left++] = repair->reported[i];
	}
	repair->reports = left;
	repair->reports_sent = sent;
}

bool repair_is_possible(const struct roce_qp *tq)
{
	return (tq->repair.open || tq->repair.trusted) && tq->repair.tries < REPAIR_TRIES &&
	       !takes_response(tq, tq->una_psn);
}

bool repair_again(struct roce_qp *tq)
{
	struct repair *repair = &tq->repair;

	if (!repair_is_possible(tq))
		return false;
	repair->tries++;
	if (!repair->run)
		repair->run = REPAIR_RUN;
	open_run(tq);
	return true;
}

static void miss(struct repair *repair)
{
	if (repair->misses < REPAIR_SKIP_MAX)
		repair->misses++;
	repair->skip = (uint8_t)((1u << repair->misses) - 1);
	repair->trusted = false;
}

bool repair_on_answer(struct roce_qp *tq, bool is_nak)
{
	struct repair *repair = &tq->repair;

	if (psn_before(tq->una_psn, repair->end))
		return true;
	repair->open = repair->pending = false;
	if (!psn_before(repair->end, repair->sent)) { /* nothing was behind them */
		repair->run = 0;
		return true;
	}
	if (psn_after(tq->una_psn, repair->end)) {
		repair->trusted = true;
		repair->run = repair->misses = 0;
		return true;
	}
	if (is_nak && repair->trusted && 2 * repair->run <= REPAIR_RUN_MAX) {
		repair->run *= 2;
		return true;
	}
	repair->run = 0;
	if (psn_equal(tq->una_psn, tq->max_psn) || (!is_nak && takes_response(tq, tq->una_psn)))
		return true;
	miss(repair);
	return false;
}

/* Adds the packet with this PSN of a SEND or WRITE; false: it cannot be sent now. */
static bool add_packet(struct roce_qp *tq, struct burst *burst, psn_t psn)
{
	struct wqe *wqe = sendq_find(tq, psn);
	uint32_t offset, bytes;
	struct packet header;
	enum cause cause;

	if (!wqe || request_takes_response(wqe))
		return false;
	offset = (uint32_t)psn_diff(psn, wqe->first_psn) * tq->mtu;
	bytes = wqe->length - offset < tq->mtu ? wqe->length - offset : tq->mtu;
	if (payload_place(burst, tq->qp, wqe, offset, bytes, &cause) != PAYLOAD_PLACED)
		return false;
	header = request_message(tq, wqe, psn, psn_equal(psn_add(psn, 1), wqe->end_psn));
	header.ack_req = header.gap_report = true;
	burst_add(burst, &header);
	return true;
}

/*
 * The packets that one burst takes, which is all as a rule. If the payload is not there any more,
 * the requester goes back, and the request fails at its turn.
 */
void repair_send(struct roce_qp *tq)
{
	enum ibv_qp_state state = qp_state(tq->qp);
	struct transmit out;
	psn_t psn = tq->una_psn, unsent;
	enum transmit_result result = TRANSMIT_FAULT;

	/* the lost request came late, and a response is missing now: that is read_repair's */
	if (takes_response(tq, psn)) {
		repair_stop(tq);
		return;
	}
	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || !transmit_begin(&out, tq))
		return;
	tq->repair.pending = false;
	while (psn_before(psn, tq->repair.end) && !burst_is_full(out.burst) &&
	       add_packet(tq, out.burst, psn))
		psn = psn_add(psn, 1);
	if (out.burst->count)
		result = transmit_requests(&out, &unsent);
	if (result == TRANSMIT_FAULT) {
		read_repair_stop(tq);
		sendq_go_back(tq, tq->una_psn);
		repair_stop(tq);
	} else if (result == TRANSMIT_FULL) {
		tq->repair.pending = true;
		qp_timer_again(tq, out.now_ns + TRANSMIT_AGAIN_NS);
	} else {
		tq->repair.end = psn;
	}
	transmit_end(&out);
}

/* As much as one burst takes; the rest at the next flush. What fails is lost once more. */
void repair_send_reported(struct roce_qp *tq)
{
	struct repair *repair = &tq->repair;
	enum ibv_qp_state state = qp_state(tq->qp);
	uint32_t first = repair->reports_sent;
	struct transmit out;
	psn_t unsent;

	if ((state != IBV_QPS_RTS && state != IBV_QPS_SQD) || !transmit_begin(&out, tq))
		return;
	while (repair_owes_reported(tq)) {
		struct reported_gap *reported = &repair->reported[repair->reports_sent];
		psn_t end = reported->gap.end;

		if (psn_before(reported->next, tq->una_psn))
			reported->next = tq->una_psn;
		while (psn_before(reported->next, end) && !burst_is_full(out.burst) &&
		       add_packet(tq, out.burst, reported->next))
			reported->next = psn_add(reported->next, 1);
		if (psn_before(reported->next, end) && burst_is_full(out.burst))
			break;
		reported->sent_ns = out.now_ns;
		repair->reports_sent++;
	}
	if (out.burst->count) {
		qp_count(tq->qp, COUNTER_REPAIRS);
		if (transmit_requests(&out, &unsent) != TRANSMIT_SENT)
			for (; first < repair->reports_sent; first++)
				repair->reported[first].sent_ns = 0; /* nothing is on its way */
	}
	if (repair_owes_reported(tq))
		flush_list_add(tq);
	transmit_end(&out);
}

#ifdef VERBATIM_CHECK
/*
 * A repair, between two packets:
 * - what is sent again is in flight;
 * - runs, tries and misses are within their bounds;
 * - what is pending is open;
 * - what was reported is not all before una_psn.
 */
void repair_check(const struct roce_qp *tq)
{
	const struct repair *repair = &tq->repair;

	INVARIANT(!repair->pending || repair->open, "QP 0x%06x", tq->qp->ib.qp_num);
	INVARIANT(repair->run <= REPAIR_RUN_MAX && repair->tries <= REPAIR_TRIES &&
			  repair->misses <= REPAIR_SKIP_MAX,
		  "QP 0x%06x: run %u, tries %u, misses %u", tq->qp->ib.qp_num, repair->run,
		  repair->tries, repair->misses);
	INVARIANT(repair->reports_sent <= repair->reports && repair->reports <= GAPS_MAX,
		  "QP 0x%06x: %u of %u", tq->qp->ib.qp_num, repair->reports_sent, repair->reports);
	for (uint32_t i = 0; i < repair->reports; i++)
		INVARIANT(psn_after(repair->reported[i].gap.end, tq->una_psn),
			  "QP 0x%06x: una %06x, gap %06x", tq->qp->ib.qp_num, tq->una_psn.number,
			  repair->reported[i].gap.end.number);
	INVARIANT(!repair->open || (psn_after(repair->end, tq->una_psn) &&
				    !psn_after(repair->end, tq->max_psn)),
		  "QP 0x%06x: una %06x, end %06x, max %06x", tq->qp->ib.qp_num, tq->una_psn.number,
		  repair->end.number, tq->max_psn.number);
}
#endif
