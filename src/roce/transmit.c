/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/transmit.h"

#include "base/counter.h"
#include "object/context.h"
#include "roce/burst.h"
#include "roce/congestion.h"
#include "roce/gso.h"
#include "roce/qp_timer.h"
#include "roce/response.h"
#include "roce/roce_env.h"

#define ACK_BYTES 20 /* BTH, AETH, ICRC */

static _Thread_local char self __attribute__((tls_model("initial-exec"))); /* its address */

/* Acknowledgements that threads are sending, of QPs that they have unlocked. */
static _Atomic unsigned acks_leaving;

/* The path's MTU is smaller than the packets. */
static void on_too_long(struct roce_qp *tq)
{
	if (!tq->narrow_reported)
		cause_report(CAUSE_PATH_TOO_NARROW, tq->qp->ib.qp_num, "path MTU %u", tq->mtu);
	tq->narrow_reported = true;
}

/* The program sleeps for events, and its requests may be answers to messages. */
static bool may_sleep(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && qp->recv_cq->ib.channel;
}

/* An acknowledgement after the burst is in the GSO batch of each message that ends in it. */
static bool is_seen_with(const struct roce_qp *tq, const struct burst *burst)
{
	return burst->first_end == BURST_NO_END ||
	       (!burst_is_full(burst) && burst_ends_in_last_batch(burst, ACK_BYTES) &&
		gso_allowed(tq));
}

/* Another thread made the last acknowledgement, which may not have been sent yet. */
static bool other_acknowledged(const struct roce_qp *tq)
{
	return tq->acknowledged_by && tq->acknowledged_by != &self;
}

/*
 * Piggybacks the acknowledgement: adds it after the requests in the burst, if nothing else is owed
 * and there is room. It costs little in their GSO batch. True: it is in the burst. False: nothing
 * is owed, or it stays owed, or it was sent ahead.
 *
 * A program that sleeps for events (its CQ has a channel) may answer a message with these requests,
 * while another thread, which received that message, acknowledges it by a packet of its own. That
 * packet may be late: the thread may be preempted before it sends it, or the packet waits in
 * another processor's queue. So the burst repeats the acknowledgement in the same GSO batch. If it
 * would not be in the GSO batch of all messages that end in the burst, it is sent before them.
 */
static bool piggyback_ack(struct roce_qp *tq, struct burst *burst)
{
	bool sleeps = may_sleep(tq->qp);
	bool again = sleeps && !tq->ack_owed && other_acknowledged(tq);

	if ((!tq->ack_owed && !again) || response_owes_more(tq) || !burst->count)
		return false;
	if (sleeps && !is_seen_with(tq, burst)) {
		tq->ack_owed = true;
		transmit_owed(tq);
		if (!tq->ack_owed) {
			tq->acknowledged_by = again ? NULL : &self;
			return false;
		}
	}
	if (burst_is_full(burst))
		return false;
	response_fill_ack(tq, burst);
	tq->ack_owed = false;
	tq->acknowledged_by = again ? NULL : &self;
	return true;
}

bool transmit_begin(struct transmit *transmit, struct roce_qp *tq)
{
	transmit->tq = tq;
	transmit->now_ns = roce_env.now();
	transmit->burst = burst_get(&tq->flow);
	if (!transmit->burst)
		qp_timer_again(tq, transmit->now_ns + TRANSMIT_AGAIN_NS);
	return transmit->burst != NULL;
}

enum transmit_result transmit_requests(struct transmit *transmit, psn_t *unsent)
{
	struct roce_qp *tq = transmit->tq;
	struct burst *burst = transmit->burst;
	unsigned requests = burst->count, count;
	bool acknowledges = piggyback_ack(tq, burst);
	enum wire_result result;

	count = burst->count;
	gso_on_requests(tq, burst, requests);
	result = burst_send(burst, unsent);
	if (acknowledges && burst->left < count) {
		tq->ack_owed = true;
		qp_timer_again(tq, transmit->now_ns + TRANSMIT_AGAIN_NS);
		if (burst->left == count - 1)
			result = WIRE_SENT;
	}
	switch (result) {
	case WIRE_FULL:
		qp_count(tq->qp, COUNTER_SOCKET_FULL);
		return TRANSMIT_FULL;
	case WIRE_FAULT:
		return TRANSMIT_FAULT;
	case WIRE_TOO_LONG:
		on_too_long(tq);
		break;
	case WIRE_NO_ROUTE: /* counts as lost */
		tq->no_route = true;
		break;
	case WIRE_NO_PORT: /* for datagrams only */
	case WIRE_SENT:
		break;
	}
	return TRANSMIT_SENT;
}

void transmit_end(struct transmit *transmit)
{
	burst_put(transmit->burst);
}

/*
 * Sends one burst of owed packets, and reduces *turn by the response packets. False: no more now.
 */
static bool send_owed(struct transmit *transmit, uint32_t *turn)
{
	struct roce_qp *tq = transmit->tq;
	struct burst *burst = transmit->burst;
	bool readable, acknowledged;
	struct response_state before;
	uint32_t responses;
	psn_t unsent;
	enum wire_result result;
	enum cause cause;

	response_save(tq, &before);
	cause = response_fill(tq, burst, turn);
	readable = cause == CAUSE_NONE;
	responses = burst->count;
	acknowledged = readable && !response_is_owed(tq) && !burst_is_full(burst) &&
		       (tq->nak.owed || tq->ack_owed);
	if (acknowledged)
		response_fill_ack(tq, burst);
	gso_on_responses(tq, burst, responses);
	result = burst_send(burst, &unsent);
	congestion_on_sent(tq, burst->left < responses ? burst->left : responses, transmit->now_ns);
	if (result == WIRE_TOO_LONG)
		on_too_long(tq);
	if (result == WIRE_FULL) {
		qp_count(tq->qp, COUNTER_SOCKET_FULL);
		response_restore(tq, &before, burst->left);
		qp_timer_again(tq, transmit->now_ns + TRANSMIT_AGAIN_NS);
		return false;
	}
	if (acknowledged) {
		/* Repeated, it might overtake the responses, which would then look lost. */
		if (!tq->nak.owed)
			tq->acknowledged_by = responses ? NULL : &self;
		tq->nak.owed = tq->ack_owed = false;
	}
	if (!readable) {
		response_fail_read(tq, cause);
		return true; /* the NAK is still to be sent */
	}
	return response_is_owed(tq) || tq->nak.owed || tq->ack_owed;
}

void transmit_owed(struct roce_qp *tq)
{
	struct transmit transmit;
	uint32_t allowed, turn;

	if (!transmit_begin(&transmit, tq))
		return;
	congestion_notify(tq, transmit.now_ns);
	allowed = congestion_allows(tq, transmit.now_ns);
	turn = allowed < TRANSMIT_RESPONSES_MAX ? allowed : TRANSMIT_RESPONSES_MAX;
	while (send_owed(&transmit, &turn)) {
		if (turn)
			continue;
		qp_timer_again(tq, allowed < TRANSMIT_RESPONSES_MAX ? congestion_next_ns(tq)
								    : transmit.now_ns);
		break;
	}
	transmit_end(&transmit);
}

/*
 * Acknowledgements that overtake one another do no harm. If the socket does not take this one, it
 * is owed again. Requests that the program posts meanwhile may overtake it, and repeat it
 * (piggyback_ack).
 */
bool transmit_ack_and_unlock(struct qp *qp, struct roce_qp *tq)
{
	struct wire_flow flow = tq->flow; /* the QP may be gone when it is used */
	uint32_t device = qp->context->device_index;
	enum wire_result result;
	struct wire_packet packet;
	unsigned sent;

	response_take_ack(tq, &packet);
	tq->acknowledged_by = &self;
	/* before the QP is unlocked: transmit_ack_may_be_late */
	atomic_fetch_add(&acks_leaving, 1);
	qp_unlock(qp);
	result = roce_env.send(&flow, &packet, 1, &sent);
	atomic_fetch_sub(&acks_leaving, 1);
	if (result == WIRE_FULL)
		counter_add_of_device(device, COUNTER_SOCKET_FULL);
	return result != WIRE_FULL;
}

bool transmit_ack_may_be_late(const struct roce_qp *tq)
{
	return other_acknowledged(tq) && atomic_load(&acks_leaving);
}

void transmit_reset_after_fork(void)
{
	acks_leaving = 0;
}
