#include "roce/retransmit.h"

#include "base/counter.h"
#include "execute/rnr.h"
#include "roce/requester.h"
#include "roce/responder.h"
#include "roce/gso.h"

static uint64_t timeout_ns(const struct roce_qp *tq)
{
	uint64_t ns = RETRANSMIT_TIMEOUTS * 4096ull << tq->qp->attr.timeout;

	return ns > RETRANSMIT_TIMEOUT_MIN_NS ? ns : RETRANSMIT_TIMEOUT_MIN_NS;
}

static bool is_in_flight(const struct roce_qp *tq)
{
	return tq->next_psn != tq->una_psn;
}

/* The earliest of the QP's deadlines. */
static void arm(struct roce_qp *tq)
{
	const uint64_t deadlines[] = { tq->probe_ns, tq->rnr_ns, tq->again_ns };
	uint64_t first = TIMER_NEVER;

	for (unsigned i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++)
		if (deadlines[i] && deadlines[i] < first)
			first = deadlines[i];
	if (first < tq->timer_ns) {
		tq->timer_ns = first;
		timer_arm(&tq->timer, first);
	}
}

/*
 * A few of the shortest round trips, not of the usual ones: on a busy host these are as long as it
 * takes until a process gets a processor, while a probe in vain costs little. Unless it is in vain each time:
 * what the window holds is then sent twice to a peer that was too slow for it once. So one that was
 * makes the next ones wait twice as long, and an answer in much less time than that half as long.
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

/* Not later than the transport timer, which is looked at when the probe is due. */
static void set_probe(struct roce_qp *tq, uint64_t now_ns)
{
	tq->probe_ns = now_ns + probe_wait_ns(tq);
	if (tq->qp->attr.timeout && tq->probe_ns > tq->waiting_ns + timeout_ns(tq))
		tq->probe_ns = tq->waiting_ns + timeout_ns(tq);
	arm(tq);
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
}

void retransmit_start(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	reset_counters(tq);
	tq->state = REQUESTER_READY;
	tq->waiting = false;
	tq->rtt_ns = tq->rtt_var_ns = tq->rtt_min_ns = 0;
	tq->rtt_running = tq->probing = false;
	tq->probe_backoff = 0;
}

void retransmit_on_ack_requested(struct roce_qp *tq, uint32_t psn, uint64_t now_ns)
{
	if (tq->rtt_running || packet_psn_diff(psn, tq->max_psn) < 0)
		return; /* an answer to what was sent twice tells nothing (Karn) */
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
		set_probe(tq, now_ns);
}

void retransmit_on_held_up(struct roce_qp *tq)
{
	tq->waiting = false;
}

static void measure(struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t sample, off;

	if (!tq->rtt_running || packet_psn_diff(tq->una_psn, tq->rtt_psn) <= 0)
		return;
	tq->rtt_running = false;
	sample = now_ns - tq->rtt_sent_ns;
	if (!sample)
		sample = 1;
	if (tq->probe_backoff && 4 * sample < probe_wait_ns(tq))
		tq->probe_backoff--;
	if (!tq->rtt_min_ns || sample < tq->rtt_min_ns)
		tq->rtt_min_ns = sample;
	if (!tq->rtt_ns) {
		tq->rtt_ns = sample;
		tq->rtt_var_ns = sample / 2;
		return;
	}
	off = sample > tq->rtt_ns ? sample - tq->rtt_ns : tq->rtt_ns - sample;
	tq->rtt_var_ns += off / 4;
	tq->rtt_var_ns -= tq->rtt_var_ns / 4;
	tq->rtt_ns = tq->rtt_ns - tq->rtt_ns / 8 + sample / 8;
}

void retransmit_on_progress(struct roce_qp *tq, uint32_t packets, uint64_t now_ns)
{
	uint32_t before = (uint32_t)packet_psn_diff(tq->next_psn, psn_add(tq->una_psn, -packets));

	if (tq->probing && packet_psn_diff(tq->una_psn, tq->probe_psn) > 0) {
		window_undo(&tq->window);
		gso_on_late(tq);
		if (tq->probe_backoff < RETRANSMIT_PROBE_BACKOFF_MAX)
			tq->probe_backoff++;
	}
	tq->probing = false;
	gso_on_progress(tq);
	measure(tq, now_ns);
	window_on_ack(&tq->window, packets, tq->una_psn, 2 * before >= tq->window.size);
	reset_counters(tq);
	tq->waiting = false;
	tq->probe_ns = 0;
	if (!is_in_flight(tq))
		return;
	wait_from(tq, now_ns);
	set_probe(tq, now_ns);
}

static void give_up(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);
	uint32_t seq;

	requester_go_back(qp, tq->una_psn);
	seq = qp->sq.issue++;
	if (tq->no_route)
		requester_fail_wqe(qp, seq, IBV_WC_RETRY_EXC_ERR, CAUSE_NO_PATH,
				   "the system sends nothing to QP 0x%06x: the interface is down, its "
				   "address was removed, or there is no route",
				   qp->attr.dest_qp_num);
	else
		requester_fail_wqe(qp, seq, IBV_WC_RETRY_EXC_ERR, CAUSE_PEER_GONE,
				   "QP 0x%06x did not answer %u times in %llu us each",
				   qp->attr.dest_qp_num, qp->attr.retry_cnt + 1u,
				   (unsigned long long)timeout_ns(tq) / 1000);
}

/* Everything from una_psn on is sent anew, at this thread's flush or when its timer fires. */
static void go_back(struct qp *qp, uint64_t now_ns)
{
	struct roce_qp *tq = roce_of(qp);

	requester_go_back(qp, tq->una_psn);
	counter_add(COUNTER_WENT_BACK);
	tq->went_back = true;
	tq->went_back_ns = now_ns;
	roce_want_flush(tq);
}

/* Asked for once more before a round trip after the last time: then it is the same loss. */
static bool is_old_news(const struct roce_qp *tq, uint64_t now_ns)
{
	uint64_t trip_ns = tq->rtt_min_ns ? tq->rtt_min_ns : RETRANSMIT_PROBE_MIN_NS;

	return tq->went_back && now_ns - tq->went_back_ns < trip_ns / 2;
}

void retransmit_on_sequence_nak(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);
	uint64_t now_ns = roce_env.now();

	if (tq->state != REQUESTER_READY || is_old_news(tq, now_ns))
		return;
	window_on_loss(&tq->window, tq->next_psn);
	gso_on_loss(tq, false);
	go_back(qp, now_ns);
}

void retransmit_on_gap(struct qp *qp, uint32_t psn)
{
	struct roce_qp *tq = roce_of(qp);
	bool again = !tq->gap_open || packet_psn_diff(psn, tq->gap_psn) <= 0;

	tq->gap_open = true;
	tq->gap_psn = psn;
	if (again)
		retransmit_on_sequence_nak(qp);
}

void retransmit_on_refusal(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	if (tq->state != REQUESTER_READY || is_old_news(tq, roce_env.now()))
		return;
	if (tq->went_back && tq->retry_left-- == 0)
		give_up(qp);
	else
		retransmit_on_sequence_nak(qp);
}

void retransmit_on_rnr_nak(struct qp *qp, uint8_t timer)
{
	struct roce_qp *tq = roce_of(qp);
	uint64_t now_ns = roce_env.now();

	if (tq->state != REQUESTER_READY)
		return;
	requester_go_back(qp, tq->una_psn);
	if (qp->attr.rnr_retry != 7 && tq->rnr_left-- == 0) {
		uint32_t seq = qp->sq.issue++;

		requester_fail_wqe(qp, seq, IBV_WC_RNR_RETRY_EXC_ERR, CAUSE_NO_RECEIVE,
			       "request %u was refused %u times", seq, qp->attr.rnr_retry + 1u);
		return;
	}
	counter_add(COUNTER_RNR_NAK_RETRY_ERR);
	/* An answer all the same: what follows must not count as one more time-out of the same silence. */
	tq->waiting = tq->excused = false;
	tq->retry_left = qp->attr.retry_cnt;
	tq->backoff = 0;
	tq->state = REQUESTER_RNR_WAIT;
	tq->probe_ns = 0;
	tq->rnr_ns = now_ns + rnr_timer_ns(timer);
	arm(tq);
}

void retransmit_again(struct roce_qp *tq, uint64_t when_ns)
{
	if (tq->again_ns && tq->again_ns <= when_ns)
		return;
	tq->again_ns = when_ns ? when_ns : 1;
	arm(tq);
}

void retransmit_stop(struct roce_qp *tq)
{
	tq->probe_ns = tq->rnr_ns = tq->again_ns = 0;
	tq->state = REQUESTER_READY;
	tq->waiting = false;
	tq->timer_ns = TIMER_NEVER;
	timer_disarm(&tq->timer);
}

/*
 * The transport timer has run out. False: for good. Who finds that late was kept from looking: by the
 * scheduler, or because another thread, which was, has the port. So the answer may be there by now.
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
		counter_add(COUNTER_LOCAL_ACK_TIMEOUT_ERR);
	}
	wait_from(tq, now_ns);
	return true;
}

/* Nothing came back in time. False: the QP failed. */
static bool probe(struct qp *qp, uint64_t now_ns)
{
	struct roce_qp *tq = roce_of(qp);

	tq->probe_ns = 0;
	if (!is_in_flight(tq)) { /* who went back has not come to send anything yet */
		roce_want_flush(tq);
		return true;
	}
	if (qp->attr.timeout && now_ns >= tq->waiting_ns + timeout_ns(tq) &&
	    !on_timeout(tq, now_ns)) {
		give_up(qp);
		return false;
	}
	counter_add(COUNTER_PROBES);
	window_on_probe(&tq->window);
	gso_on_loss(tq, true);
	tq->probing = true;
	tq->probe_psn = psn_add(tq->una_psn, 1);
	if (tq->backoff < 16)
		tq->backoff++;
	tq->gap_open = false;
	go_back(qp, now_ns);
	return true;
}

void retransmit_fire(struct qp *qp, uint64_t now_ns)
{
	struct roce_qp *tq = roce_of(qp);
	enum ibv_qp_state state = qp_state(qp);

	tq->timer_ns = TIMER_NEVER;
	if (tq->rnr_ns && tq->rnr_ns <= now_ns) {
		tq->rnr_ns = 0;
		tq->state = REQUESTER_READY;
		roce_want_flush(tq);
	}
	if (tq->again_ns && tq->again_ns <= now_ns) {
		tq->again_ns = 0;
		roce_want_flush(tq);
	}
	if (tq->probe_ns && tq->probe_ns <= now_ns &&
	    (state == IBV_QPS_RTS || state == IBV_QPS_SQD) && !probe(qp, now_ns))
		return;
	arm(tq);
}
