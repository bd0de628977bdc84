/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/retransmit.h"

#include "base/check.h"
#include "base/counter.h"
#include "execute/rnr.h"
#include "roce/flush_list.h"
#include "roce/gso.h"
#include "roce/qp_timer.h"
#include "roce/read_repair.h"
#include "roce/repair.h"
#include "roce/roce_env.h"
#include "roce/sendq.h"

static uint64_t timeout_ns(const struct roce_qp *tq)
{
	uint64_t ns = RETRANSMIT_TIMEOUTS * 4096ull << tq->qp->attr.timeout;

	return ns > RETRANSMIT_TIMEOUT_MIN_NS ? ns : RETRANSMIT_TIMEOUT_MIN_NS;
}

/*
 * The RTO: smoothed round trip and four times its variance, but at most a few of the shortest round
 * trips. On a busy host usual round trips include the time until a process gets a processor, and a
 * spurious probe costs little. But if each probe were spurious, a peer that is too slow for the
 * window would get it twice. So a spurious probe doubles the RTO of the next ones, and a much
 * shorter round trip halves it again.
 */
static uint64_t probe_wait_ns(const struct roce_qp *tq)
{
	uint64_t wait_ns = RETRANSMIT_PROBE_FIRST_NS;

	if (tq->rtt_min_ns) {
		wait_ns = tq->rtt_ns + 4 * tq->rtt_var_ns;
		if (wait_ns > RETRANSMIT_PROBE_TRIPS * tq->rtt_min_ns)
			wait_ns = RETRANSMIT_PROBE_TRIPS * tq->rtt_min_ns;
	}
	if (wait_ns < RETRANSMIT_PROBE_MIN_NS)
		wait_ns = RETRANSMIT_PROBE_MIN_NS;
	wait_ns <<= tq->backoff + tq->probe_backoff;
	return wait_ns < RETRANSMIT_PROBE_MAX_NS ? wait_ns : RETRANSMIT_PROBE_MAX_NS;
}

/* Not later than the transport timer, which is checked when the probe is due. */
static void set_probe(struct roce_qp *tq, uint64_t now_ns)
{
	tq->probe_ns = now_ns + probe_wait_ns(tq);
	if (tq->qp->attr.timeout && tq->probe_ns > tq->waiting_ns + timeout_ns(tq))
		tq->probe_ns = tq->waiting_ns + timeout_ns(tq);
	qp_timer_arm(tq);
}

/* A repair costs little, so it need not wait as long as a probe. */
static void set_repair_timer(struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t wait_ns = (2 * tq->rtt_ns + REPAIR_WAIT_MIN_NS) << tq->probe_backoff;

	set_probe(tq, now_ns);
	if (tq->probe_ns <= now_ns + wait_ns)
		return;
	tq->probe_ns = now_ns + wait_ns;
	qp_timer_arm(tq);
}

/* Packets are in flight, and nothing was heard of them yet. */
static void set_timer(struct roce_qp *tq, uint64_t now_ns)
{
	if ((repair_is_possible(tq) || read_repair_is_possible(tq)) && !tq->backoff)
		set_repair_timer(tq, now_ns);
	else
		set_probe(tq, now_ns);
}

static void wait_from(struct roce_qp *tq, uint64_t now_ns)
{
	tq->waiting = true;
	tq->waiting_ns = now_ns;
}

static void reset_counters(struct roce_qp *tq)
{
	tq->rnr_left = tq->qp->attr.rnr_retry;
	tq->retry_left = tq->qp->attr.retry_cnt;
	tq->backoff = 0;
	tq->went_back = false;
	tq->gap_open = false;
	tq->no_route = false;
	tq->excused = false;
	tq->repair.tries = 0;
}

void retransmit_start(struct roce_qp *tq)
{
	reset_counters(tq);
	tq->state = REQUESTER_READY;
	tq->waiting = false;
	tq->rtt_ns = tq->rtt_var_ns = tq->rtt_min_ns = tq->rtt_recent_ns = tq->rtt_next_ns = 0;
	tq->rtt_interval_ns = roce_env.now();
	tq->rtt_running = tq->probing = false;
	tq->probe_backoff = 0;
	repair_start(tq);
	read_repair_start(tq);
}

void retransmit_on_ack_requested(struct roce_qp *tq, psn_t psn, uint64_t now_ns)
{
	if (tq->rtt_running || psn_before(psn, tq->max_psn))
		return; /* packets that were sent twice give no round trip (Karn's algorithm) */
	tq->rtt_running = true;
	tq->rtt_psn = psn;
	tq->rtt_sent_ns = now_ns;
}

void retransmit_on_sent(struct roce_qp *tq, uint64_t now_ns)
{
	if (!qp_is_reliable(tq->qp))
		return;
	if (!tq->waiting)
		wait_from(tq, now_ns);
	if (!tq->probe_ns)
		set_timer(tq, now_ns);
}

void retransmit_on_held_up(struct roce_qp *tq)
{
	tq->waiting = false;
}

/*
 * The shortest round trip of the last interval and of this one: a path may become longer. For
 * was_slow alone, as what waits in a queue makes all round trips longer.
 */
static void keep_recent(struct roce_qp *tq, uint64_t sample, uint64_t now_ns)
{
	if (now_ns - tq->rtt_interval_ns > RETRANSMIT_RECENT_NS) {
		tq->rtt_recent_ns = tq->rtt_next_ns;
		tq->rtt_next_ns = sample;
		tq->rtt_interval_ns = now_ns;
	}
	if (!tq->rtt_next_ns || sample < tq->rtt_next_ns)
		tq->rtt_next_ns = sample;
	if (!tq->rtt_recent_ns || sample < tq->rtt_recent_ns)
		tq->rtt_recent_ns = sample;
}

static void measure(struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t sample, off;

	if (!tq->rtt_running || !psn_after(tq->una_psn, tq->rtt_psn))
		return;
	tq->rtt_running = false;
	sample = now_ns - tq->rtt_sent_ns;
	if (!sample)
		sample = 1;
	if (tq->probe_backoff && 4 * sample < probe_wait_ns(tq))
		tq->probe_backoff--;
	if (!tq->rtt_min_ns || sample < tq->rtt_min_ns) {
		tq->rtt_min_ns = sample;
		window_on_round_trip(&tq->window, sample);
	}
	keep_recent(tq, sample, now_ns);
	if (!tq->rtt_ns) {
		tq->rtt_ns = sample;
		tq->rtt_var_ns = sample / 2;
		return;
	}
	off = sample > tq->rtt_ns ? sample - tq->rtt_ns : tq->rtt_ns - sample;
	tq->rtt_var_ns = tq->rtt_var_ns - tq->rtt_var_ns / 4 + off / 4;
	tq->rtt_ns = tq->rtt_ns - tq->rtt_ns / 8 + sample / 8;
}

/*
 * The acknowledgement of a probe is that of more packets, and not because it was spurious: the
 * responder keeps packets, and this is when its answer comes. Its NAK was lost.
 */
static bool was_repaired(const struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - tq->went_back_ns;

	return tq->repair.trusted && since_ns >= tq->rtt_min_ns &&
	       since_ns <= 2 * tq->rtt_ns + REPAIR_WAIT_MIN_NS;
}

/*
 * There was silence for so long that some more would have been a time-out, or was one, although
 * nothing is known to be lost: what is in flight, of this QP and of others, waits in the receive
 * buffer of a responder that is slow. Less of it waits for less long.
 */
static bool was_slow(const struct roce_qp *tq, bool spurious, uint64_t now_ns)
{
	uint64_t slow_ns = timeout_ns(tq) / RETRANSMIT_SLOW, trip_ns = tq->rtt_recent_ns;

	if (!tq->qp->attr.timeout || !tq->waiting || !trip_ns || (tq->went_back && !spurious))
		return false;
	if (slow_ns < RETRANSMIT_TIMEOUT_MIN_NS)
		slow_ns = RETRANSMIT_TIMEOUT_MIN_NS;
	/* If a queue stands for so long, its length must not count as the path's. */
	if (trip_ns > timeout_ns(tq) / 2)
		trip_ns = timeout_ns(tq) / 2;
	if (trip_ns < tq->rtt_min_ns)
		trip_ns = tq->rtt_min_ns;
	return tq->excused || tq->retry_left < tq->qp->attr.retry_cnt ||
	       now_ns - tq->waiting_ns > trip_ns + slow_ns;
}

/* Before this acknowledgement at least half of the window was in flight. */
static bool was_limited(const struct roce_qp *tq, uint32_t packets)
{
	return 2 * (sendq_in_flight(tq) + packets) >= tq->window.size;
}

void retransmit_on_progress(struct roce_qp *tq, uint32_t packets, uint64_t now_ns)
{
	uint32_t before = (uint32_t)psn_diff(tq->next_psn, psn_sub(tq->una_psn, packets));
	bool spurious = tq->probing && psn_after(tq->una_psn, tq->probe_psn), slow;

	if (spurious) {
		sendq_resume(tq, tq->resume_psn);
		window_undo(&tq->window);
		gso_on_late(tq);
		if (!was_repaired(tq, now_ns) && tq->probe_backoff < RETRANSMIT_PROBE_BACKOFF_MAX)
			tq->probe_backoff++;
	}
	tq->probing = false;
	repair_on_progress(tq);
	read_repair_on_progress(tq, psn_sub(tq->una_psn, packets));
	gso_on_progress(tq);
	measure(tq, now_ns);
	slow = was_slow(tq, spurious, now_ns) && was_limited(tq, packets);
	window_on_ack(&tq->window, packets, tq->una_psn, 2 * before >= tq->window.size);
	if (slow)
		window_on_mark(&tq->window, tq->next_psn);
	reset_counters(tq);
	tq->waiting = false;
	tq->probe_ns = 0;
	if (!sendq_in_flight(tq))
		return;
	wait_from(tq, now_ns);
	set_timer(tq, now_ns);
}

static void give_up(struct roce_qp *tq)
{
	struct qp *qp = tq->qp;
	uint32_t seq;

	qp_count(qp, COUNTER_RETRY_EXCEEDED_ERR);
	sendq_go_back(tq, tq->una_psn);
	seq = qp->sq.issue++;
	if (tq->no_route)
		sendq_fail(tq, seq, IBV_WC_RETRY_EXC_ERR, CAUSE_NO_PATH,
			   "the system sends nothing to QP 0x%06x: the interface is down, its "
			   "address was removed, or there is no route",
			   qp->attr.dest_qp_num);
	else
		sendq_fail(tq, seq, IBV_WC_RETRY_EXC_ERR, CAUSE_PEER_GONE,
			   "QP 0x%06x did not answer %u times in %llu us each",
			   qp->attr.dest_qp_num, qp->attr.retry_cnt + 1u,
			   (unsigned long long)timeout_ns(tq) / 1000);
}

/* Everything from una_psn on is sent again, at this thread's flush or when the QP's timer fires. */
static void go_back(struct roce_qp *tq, uint64_t now_ns)
{
	read_repair_stop(tq);
	sendq_go_back(tq, tq->una_psn);
	repair_stop(tq);
	qp_count(tq->qp, COUNTER_WENT_BACK);
	tq->went_back = true;
	tq->went_back_ns = now_ns;
	flush_list_add(tq);
}

/* A second NAK within a round trip after going back is about the same loss. */
static bool is_same_loss(const struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t trip_ns = tq->rtt_min_ns ? tq->rtt_min_ns : RETRANSMIT_PROBE_MIN_NS;

	return tq->went_back && now_ns - tq->went_back_ns < trip_ns / 2;
}

/* Everything from una_psn on counts as lost. */
static void lose(struct roce_qp *tq, uint64_t now_ns)
{
	window_on_loss(&tq->window, tq->next_psn);
	gso_on_loss(tq, false);
	tq->probing = false;
	go_back(tq, now_ns);
	set_probe(tq, now_ns);
}

/* What is missing is on its way again, or is about to be. */
static void await_repair(struct roce_qp *tq, uint64_t now_ns)
{
	tq->rtt_running = tq->probing = false;
	tq->went_back = true;
	tq->went_back_ns = now_ns;
	set_repair_timer(tq, now_ns);
}

/* The packet at una_psn was lost. False: the requester has to go back. */
static bool repair(struct roce_qp *tq, uint64_t now_ns)
{
	bool burst = tq->repair.run > 0; /* the loss goes on behind the last run */

	if (repair_on_reported(tq, now_ns)) {
		/* it was counted as a loss then */
	} else if (repair_begin(tq)) {
		if (burst)
			window_on_loss(&tq->window, tq->next_psn);
		else
			window_on_gap(&tq->window, 1, tq->next_psn);
	} else if (!read_repair_on_nak(tq)) {
		return false;
	}
	gso_on_loss(tq, false);
	await_repair(tq, now_ns);
	return true;
}

void retransmit_on_sequence_nak(struct roce_qp *tq)
{
	uint64_t now_ns = roce_env.now();

	if (tq->state != REQUESTER_READY || is_same_loss(tq, now_ns))
		return;
	if (!repair(tq, now_ns))
		lose(tq, now_ns);
}

void retransmit_on_gap_report(struct roce_qp *tq, const struct packet *packet)
{
	const struct gap gap = { packet->psn, psn_add(packet->psn, packet->msn) };

	if (tq->state != REQUESTER_READY || !repair_on_report(tq, &gap))
		return;
	tq->rtt_running = false; /* what is behind it is acknowledged later (Karn's algorithm) */
	window_on_gap(&tq->window, packet->msn, tq->next_psn);
}

void retransmit_on_answer(struct roce_qp *tq, bool is_nak)
{
	if (!repair_on_answer(tq, is_nak) && tq->state == REQUESTER_READY)
		lose(tq, roce_env.now());
}

bool retransmit_on_response(struct roce_qp *tq, const struct packet *packet)
{
	switch (read_repair_on_response(tq, packet)) {
	case READ_REPAIR_LATE:
		if (tq->probe_backoff < RETRANSMIT_PROBE_BACKOFF_MAX)
			tq->probe_backoff++;
		break;
	case READ_REPAIR_FAILED:
		lose(tq, roce_env.now());
		break;
	case READ_REPAIR_REFUSED:
		return false;
	case READ_REPAIR_GOES_ON:
		break;
	}
	return true;
}

void retransmit_on_gap(struct roce_qp *tq, const struct packet *packet)
{
	bool again = !tq->gap_open || !psn_after(packet->psn, tq->gap_psn);
	uint64_t now_ns = roce_env.now();

	if (read_repair_keep(tq, packet))
		return;
	tq->gap_open = true;
	tq->gap_psn = packet->psn;
	if (!again || tq->state != REQUESTER_READY || is_same_loss(tq, now_ns))
		return;
	if (read_repair_begin(tq, packet))
		await_repair(tq, now_ns);
	else
		lose(tq, now_ns);
}

void retransmit_on_refusal(struct roce_qp *tq)
{
	if (tq->state != REQUESTER_READY || is_same_loss(tq, roce_env.now()))
		return;
	if (tq->went_back && tq->retry_left-- == 0)
		give_up(tq);
	else
		lose(tq, roce_env.now());
}

void retransmit_on_rnr_nak(struct roce_qp *tq, uint8_t timer)
{
	struct qp *qp = tq->qp;
	uint64_t now_ns = roce_env.now();

	if (tq->state != REQUESTER_READY)
		return;
	read_repair_stop(tq);
	sendq_go_back(tq, tq->una_psn);
	repair_stop(tq);
	tq->probing = false;
	if (qp->attr.rnr_retry != 7 && tq->rnr_left-- == 0) {
		uint32_t seq = qp->sq.issue++;

		qp_count(qp, COUNTER_RETRY_RNR_EXCEEDED_ERR);
		sendq_fail(tq, seq, IBV_WC_RNR_RETRY_EXC_ERR, CAUSE_NO_RECEIVE,
			   "request %u was refused %u times", seq, qp->attr.rnr_retry + 1u);
		return;
	}
	qp_count(tq->qp, COUNTER_RNR_NAK_RETRY_ERR);
	/* The responder answered: a later time-out is a new one. */
	tq->waiting = tq->excused = false;
	tq->retry_left = qp->attr.retry_cnt;
	tq->backoff = 0;
	tq->state = REQUESTER_RNR_WAIT;
	tq->probe_ns = 0;
	tq->rnr_ns = now_ns + rnr_timer_ns(timer);
	qp_timer_arm(tq);
}

void retransmit_stop(struct roce_qp *tq)
{
	tq->state = REQUESTER_READY;
	tq->waiting = tq->probing = false;
	repair_stop(tq);
	read_repair_stop(tq);
	qp_timer_stop(tq);
}

/*
 * The transport timer (local ACK timeout) has expired. False: no retry is left. If this thread
 * notices late, it had no processor, or the thread at the port had none: the acknowledgement may be
 * in the socket.
 */
static bool on_timeout(struct roce_qp *tq, uint64_t now_ns)
{
	bool late = now_ns - tq->waiting_ns > timeout_ns(tq) + timeout_ns(tq) / RETRANSMIT_LATE;

	if (late && !tq->excused) {
		tq->excused = true;
	} else {
		tq->excused = false;
		if (tq->retry_left-- == 0)
			return false;
		qp_count(tq->qp, COUNTER_LOCAL_ACK_TIMEOUT_ERR);
	}
	wait_from(tq, now_ns);
	return true;
}

/* The RTO has expired. False: the QP failed. */
static bool probe(struct roce_qp *tq, uint64_t now_ns)
{
	struct qp *qp = tq->qp;

	tq->probe_ns = 0;
	if (!sendq_in_flight(tq)) { /* the requester went back, and has not sent a packet since */
		flush_list_add(tq);
		return true;
	}
	if (qp->attr.timeout && now_ns >= tq->waiting_ns + timeout_ns(tq) &&
	    !on_timeout(tq, now_ns)) {
		give_up(tq);
		return false;
	}
	if (!tq->backoff && (repair_again(tq) || read_repair_again(tq))) {
		tq->rtt_running = false;
		set_timer(tq, now_ns); /* after the last try: the RTO */
		return true;
	}
	qp_count(tq->qp, COUNTER_PROBES);
	window_on_probe(&tq->window);
	gso_on_loss(tq, true);
	if (!tq->probing)
		tq->resume_psn = tq->next_psn;
	tq->probing = true;
	tq->probe_psn = psn_add(tq->una_psn, 1);
	if (tq->backoff < 16)
		tq->backoff++;
	tq->gap_open = false;
	go_back(tq, now_ns);
	return true;
}

void retransmit_fire(struct roce_qp *tq, uint64_t now_ns)
{
	struct qp *qp = tq->qp;
	enum ibv_qp_state state = qp_state(qp);

	tq->timer_ns = TIMER_NEVER;
	if (tq->rnr_ns && tq->rnr_ns <= now_ns) {
		tq->rnr_ns = 0;
		tq->state = REQUESTER_READY;
		flush_list_add(tq);
	}
	if (tq->again_ns && tq->again_ns <= now_ns) {
		tq->again_ns = 0;
		flush_list_add(tq);
	}
	if (tq->probe_ns && tq->probe_ns <= now_ns &&
	    (state == IBV_QPS_RTS || state == IBV_QPS_SQD) && !probe(tq, now_ns))
		return;
	qp_timer_arm(tq);
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a requester's timers, without which it would wait for ever:
 * - the QP's timer fires no later than each of its deadlines;
 * - while packets of a reliable QP are in flight the probe is armed, except in an RNR wait;
 * - in an RNR wait the RNR timer is armed;
 * - doublings of the RTO are within their bounds.
 */
void retransmit_check(const struct roce_qp *tq)
{
	const uint64_t deadlines[] = { tq->probe_ns, tq->rnr_ns, tq->again_ns };
	enum ibv_qp_state state = qp_state(tq->qp);
	uint32_t qpn = tq->qp->ib.qp_num;

	for (unsigned i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		INVARIANT(!deadlines[i] || tq->timer_ns <= deadlines[i],
			  "QP 0x%06x: timer %llu ns, deadline %u %llu ns", qpn,
			  (unsigned long long)tq->timer_ns, i, (unsigned long long)deadlines[i]);
	INVARIANT(tq->probe_backoff <= RETRANSMIT_PROBE_BACKOFF_MAX && tq->backoff <= 16,
		  "QP 0x%06x: probe backoff %u, backoff %u", qpn, tq->probe_backoff, tq->backoff);
	repair_check(tq);
	read_repair_check(tq);
	INVARIANT(tq->state != REQUESTER_RNR_WAIT || tq->rnr_ns, "QP 0x%06x", qpn);
	if (!tq->started || !qp_is_reliable(tq->qp) ||
	    (state != IBV_QPS_RTS && state != IBV_QPS_SQD))
		return;
	INVARIANT(!sendq_in_flight(tq) || tq->probe_ns || tq->state == REQUESTER_RNR_WAIT,
		  "QP 0x%06x: %u packets in flight", qpn, sendq_in_flight(tq));
}
#endif
