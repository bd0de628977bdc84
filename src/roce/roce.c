/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "base/check.h"
#include "base/counter.h"
#include "execute/copies.h"
#include "execute/unknown_qp.h"
#include "object/qp_table.h"
#include "packet/kept.h"
#include "roce/response.h"
#include "roce/burst.h"
#include "roce/completer.h"
#include "roce/congestion.h"
#include "roce/datagram.h"
#include "roce/flush_list.h"
#include "roce/gso.h"
#include "roce/qp_timer.h"
#include "roce/requester.h"
#include "roce/responder.h"
#include "roce/retransmit.h"
#include "roce/roce_qp.h"
#include "roce/sendq.h"
#include "roce/transmit.h"

#define ACKS_MAX     4
#define ACK_WAITS_NS 100000

struct roce_env roce_env;

/* The QP with held packets of a WRITE that this thread received (responder_write_held); 0: none. */
static _Thread_local uint32_t holding_qpn __attribute__((tls_model("initial-exec")));

/*
 * The QP that this thread keeps locked from one packet of a GRO batch to the next, while it gathers
 * events of its CQs. So when an event wakes the program, it sees the effect of all packets, above
 * all of an acknowledgement after a message (issue). NULL: none, as after the last packet.
 */
static _Thread_local struct qp *kept __attribute__((tls_model("initial-exec")));

/*
 * Delayed acknowledgements: those of these QPs wait until this thread posts to the QP, or for its
 * next roce_flush. If neither comes, the QP's timer sends them. Another thread that sends packets
 * of the QP sends them, too.
 */
static _Thread_local struct {
	uint32_t count;
	uint32_t qpns[ACKS_MAX];
} to_acknowledge __attribute__((tls_model("initial-exec")));

_Thread_local uint32_t roce_waits_left __attribute__((tls_model("initial-exec")));

void roce_init(const struct roce_env *env)
{
	roce_env = *env;
	burst_prepare();
}

void roce_reset_after_fork(void)
{
	timer_reset_after_fork();
	burst_reset_after_fork();
	gso_reset_after_fork();
	kept_reset_after_fork();
	copies_reset_after_fork();
	transmit_reset_after_fork();
	flush_list_reset();
	to_acknowledge.count = 0;
	roce_waits_left = 0;
	holding_qpn = 0;
	kept = NULL;
}

static struct roce_qp *make(struct qp *qp)
{
	struct roce_qp *tq;

	if (timer_reserve())
		return NULL;
	tq = calloc(1, sizeof(*tq));
	if (!tq) {
		timer_release();
		return NULL;
	}
	tq->qp = qp;
	tq->timer.qpn = qp->ib.qp_num;
	tq->timer_ns = TIMER_NEVER;
	qp->path_data = tq;
	return tq;
}

static int connect(struct qp *qp)
{
	struct ibv_ah_attr address = qp->attr.ah_attr;
	struct roce_qp *tq = roce_of(qp);
	int error;

	if (!tq)
		tq = make(qp);
	if (!tq)
		return ENOMEM;
	error = response_make_room(tq);
	if (error)
		return error;
	tq->mtu = qp_mtu(qp);
	tq->narrow_reported = false;
	/* For connections of adapters the kernel takes the route's; many programs say 1. */
	address.grh.hop_limit = 0;
	error = roce_env.resolve(qp->context, &address, qp->attr.dest_qp_num, &tq->flow);
	if (error == EINPROGRESS) { /* the address has changed since the port was opened */
		cause_report(CAUSE_PORT_FAILED, qp->ib.qp_num, "the address has just changed");
		return EAGAIN;
	}
	if (!error)
		gso_start(tq);
	return error;
}

static int set_depths(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);
	int error = tq ? sendq_make_room(tq) : 0;

	return tq && !error ? response_make_room(tq) : error;
}

/*
 * A program may post its answer to a message before the thread that received the message has
 * acknowledged it (roce_flush_urgent delays that). If the CQ has a channel, answer and
 * acknowledgement leave in one GSO batch, or the acknowledgement leaves first (piggyback_ack). The
 * other end handles a whole GSO batch before it raises an event (kept). So where both ends sleep
 * for events, as with ib_send_lat -e, each finds its request completed when the answer arrives, as
 * with adapters; unless the network splits the GSO batch, and GRO does not merge it again. For a
 * program that polls, the acknowledgement is in most GSO batches, but delays nothing.
 */
static void issue(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	if (!tq)
		return;
	if (tq->ack_owed && !response_is_ack_only(tq))
		responder_flush(tq);
	if (roce_waits_left && !tq->ack_owed && requester_may_wait(tq)) {
		roce_waits_left--;
		flush_list_add(tq);
		return;
	}
	requester_transmit(tq); /* takes the acknowledgement along */
	if (tq->ack_owed)
		responder_flush(tq);
	CHECK(roce_check(qp));
}

/* What was counted packet by packet, in the QP's own memory. */
static void count(struct roce_qp *tq)
{
	qp_count_many(tq->qp, COUNTER_KEPT, &tq->uncounted_kept);
	qp_count_many(tq->qp, COUNTER_OUT_OF_SEQUENCE, &tq->uncounted_out_of_sequence);
}

static void quiesce(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	if (!tq)
		return;
	count(tq);
	tq->gap_reports.count = 0; /* an acknowledgement is all that is owed */
	/*
	 * Acknowledges what the program has received, even if it ends the QP right after. In ERR
	 * this sends only an acknowledgement: a response that fails would fail the QP once more.
	 * Repeats the acknowledgement that another thread is about to send, as the peer may learn
	 * of the end in another way (a DREQ) before it.
	 */
	tq->ack_owed |= transmit_ack_may_be_late(tq);
	if (tq->ack_owed && (qp_state(qp) == IBV_QPS_RESET || response_is_ack_only(tq)))
		responder_flush(tq);
	retransmit_stop(tq);
	responder_quiesce(tq);
	tq->started = tq->failure.pending = false;
	tq->next_psn = tq->una_psn = tq->max_psn = psn_of(0);
	tq->outstanding_head = tq->outstanding_tail = 0;
	CHECK(retransmit_check(tq));
}

static void destroy(struct qp *qp)
{
	struct roce_qp *tq = roce_of(qp);

	if (!tq)
		return;
	retransmit_stop(tq);
	timer_release();
	qp->path_data = NULL;
	kept_fini(&tq->kept);
	copies_fini(&tq->copies);
	response_fini(tq);
	free(tq->outstanding);
	free(tq);
}

const struct qp_path roce_path = {
	.connect = connect,
	.set_depths = set_depths,
	.issue = issue,
	.quiesce = quiesce,
	.destroy = destroy,
};

/*
 * Sends the acknowledgement alone. If the socket does not take it, it is owed again, if the QP
 * still exists and is connected.
 */
static void acknowledge_and_unlock(struct qp *qp) RELEASES(qp->lock)
{
	struct roce_qp *tq = roce_of(qp);
	uint32_t qpn = qp->ib.qp_num;

	if (transmit_ack_and_unlock(qp, tq))
		return;
	if (!qp_find_locked(qpn, &qp))
		return;
	tq = roce_of(qp);
	if (tq && tq->expecting) {
		tq->ack_owed = true;
		qp_timer_again(tq, roce_env.now() + TRANSMIT_AGAIN_NS);
	}
	qp_unlock(qp);
}

static void flush(struct qp *qp) RELEASES(qp->lock)
{
	struct roce_qp *tq = roce_of(qp);

	if (tq) {
		count(tq);
		responder_write_held(tq);
		if (!response_is_ack_only(tq))
			responder_flush(tq);
		requester_transmit(tq);
		CHECK(roce_check(qp));
		if (response_is_ack_only(tq)) {
			acknowledge_and_unlock(qp);
			return;
		}
	}
	cq_give_events();
	qp_unlock(qp);
}

/* As flush, but an acknowledgement waits until this thread's next roce_flush. */
static void flush_urgent(struct qp *qp, uint64_t now_ns) RELEASES(qp->lock)
{
	struct roce_qp *tq = roce_of(qp);

	if (tq) {
		count(tq);
		responder_write_held(tq);
		if (response_is_ack_only(tq))
			requester_transmit(tq);
		if (response_is_ack_only(tq) && to_acknowledge.count < ACKS_MAX) {
			to_acknowledge.qpns[to_acknowledge.count++] = qp->ib.qp_num;
			qp_timer_again(tq, now_ns + ACK_WAITS_NS);
			cq_give_events();
			qp_unlock(qp);
			return;
		}
	}
	flush(qp);
}

/* urgent_ns: the time for flush_urgent; 0: flushes all. Flushing may list QPs again. */
static void flush_listed(uint64_t urgent_ns)
{
	uint32_t qpns[FLUSH_LIST_MAX], count = flush_list_take(qpns);

	roce_waits_left = ROCE_WAITS_MAX;
	for (uint32_t i = 0; i < count; i++) {
		struct qp *qp;

		if (!qp_find_locked(qpns[i], &qp))
			continue;
		if (urgent_ns)
			flush_urgent(qp, urgent_ns);
		else
			flush(qp);
	}
}

static void acknowledge(void)
{
	uint32_t count = to_acknowledge.count;

	to_acknowledge.count = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct qp *qp;

		if (!qp_find_locked(to_acknowledge.qpns[i], &qp))
			continue;
		if (roce_of(qp) && response_is_ack_only(roce_of(qp)))
			acknowledge_and_unlock(qp);
		else /* another thread has flushed it, or is about to */
			qp_unlock(qp);
	}
}

void roce_flush(void)
{
	acknowledge();
	flush_listed(0);
}

bool roce_owes(void)
{
	return flush_list_any();
}

bool roce_flush_urgent(uint64_t now_ns)
{
	flush_listed(now_ns);
	return to_acknowledge.count != 0;
}

static bool is_of_connection(const struct roce_qp *tq, const struct wire_flow *flow)
{
	return !memcmp(tq->flow.remote, flow->remote, WIRE_GID_BYTES) &&
	       !memcmp(tq->flow.local, flow->local, WIRE_GID_BYTES);
}

static bool goes_to_requester(const struct packet_opcode *op)
{
	return op->kind == PACKET_ACK || op->kind == PACKET_ATOMIC_ACK ||
	       op->kind == PACKET_READ_RESPONSE;
}

static bool fits_service(const struct qp *qp, const struct packet *packet,
			 const struct packet_opcode *op)
{
	switch (packet_service(packet->opcode)) {
	case PACKET_RC:
		return qp->type == IBV_QPT_RC;
	case PACKET_UC:
		return qp->type == IBV_QPT_UC;
	case PACKET_XRC: /* each end has one half of the service */
		return qp->type == (goes_to_requester(op) ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV);
	case PACKET_CNP:
		return op->kind == PACKET_NOTIFY_CONGESTION;
	default:
		return false;
	}
}

static void on_connection_packet(struct roce_qp *tq, const struct packet *packet,
				 const struct packet_opcode *op, const struct wire_arrival *arrival)
{
	if (op->kind != PACKET_NOTIFY_CONGESTION) {
		if ((arrival->flow->traffic_class & WIRE_ECN_MASK) == WIRE_ECN_CE)
			congestion_on_mark(tq);
		if (arrival->backlogged && !qp_is_reliable(tq->qp))
			congestion_on_backlog(tq);
	}
	switch (op->kind) {
	case PACKET_NOTIFY_CONGESTION:
		congestion_on_notification(tq, roce_env.now());
		break;
	case PACKET_ACK:
	case PACKET_ATOMIC_ACK:
	case PACKET_READ_RESPONSE:
		completer_on_packet(tq, packet, op);
		break;
	default:
		responder_on_packet(tq, packet, op);
		break;
	}
}

/* Finds and locks the QP, unless it is still locked since the last packet. */
static bool take(uint32_t qpn, struct qp **qp) TRY_ACQUIRES((*qp)->lock)
{
	if (!kept)
		return qp_find_locked(qpn, qp);
	*qp = kept;
	return true;
}

static void keep(struct qp *qp) RELEASES(qp->lock) NO_LOCK_CHECK /* it stays locked, for take */
{
	kept = qp;
}

static void let_go(struct qp *qp) RELEASES(qp->lock)
{
	kept = NULL;
	cq_stop_gathering();
	qp_unlock(qp);
}

/* The next packet is for another QP: settles held packets of the last one, and unlocks it. */
static void settle(void)
{
	uint32_t qpn = holding_qpn;
	struct qp *qp;

	holding_qpn = 0;
	if (!take(qpn, &qp))
		return;
	if (roce_of(qp))
		responder_write_held(roce_of(qp));
	let_go(qp);
}

/* The QP of the last packet; 0: none that matters. */
static uint32_t last_qpn(void)
{
	return kept ? kept->ib.qp_num : holding_qpn;
}

static void on_packet(struct qp *qp, const struct packet *packet,
		      const struct wire_arrival *arrival)
{
	const struct packet_opcode *op = packet_opcode(packet->opcode);
	struct roce_qp *tq = roce_of(qp);

	if (qp->type == IBV_QPT_UD && op->kind == PACKET_NOTIFY_CONGESTION) {
		datagram_on_notification(qp);
	} else if (!tq || !is_of_connection(tq, arrival->flow)) {
		qp_count(qp, COUNTER_STRANGER);
	} else if (!fits_service(qp, packet, op)) {
		qp_count(qp, COUNTER_OTHER_SERVICE);
	} else {
		tq->more = arrival->more;
		on_connection_packet(tq, packet, op, arrival);
	}
	if (tq && !arrival->more) {
		count(tq);
		responder_write_held(tq);
	}
	holding_qpn = tq && tq->held ? packet->dest_qpn : 0;
	CHECK(roce_check(qp));
}

void roce_receive(const struct wire_arrival *arrival)
{
	struct packet packet;
	bool good = packet_decode(arrival->bytes, arrival->length, &packet) == PACKET_GOOD;
	bool datagram = good && packet_service(packet.opcode) == PACKET_UD;
	struct qp *qp;

	if (last_qpn() && (!good || datagram || last_qpn() != packet.dest_qpn))
		settle();
	if (!good) {
		counter_add(COUNTER_MALFORMED);
		return;
	}
	if (datagram) {
		datagram_receive(&packet, arrival);
		return;
	}
	if (!take(packet.dest_qpn, &qp)) {
		unknown_qp_count(packet.dest_qpn);
		return;
	}
	/* Not for XRC: a QP's lock does not keep the CQ of an XRC SRQ from being destroyed. */
	if (arrival->more && qp->type == IBV_QPT_RC)
		cq_gather_events();
	on_packet(qp, &packet, arrival);
	if (arrival->more && cq_has_gathered())
		keep(qp);
	else
		let_go(qp);
}

uint64_t roce_deadline_ns(void)
{
	return timer_next_ns();
}

void roce_run(uint64_t now_ns)
{
	uint32_t qpn;

	while ((qpn = timer_take_due(now_ns)) != 0) {
		struct qp *qp;

		if (!qp_find_locked(qpn, &qp))
			continue;
		if (roce_of(qp))
			retransmit_fire(roce_of(qp), now_ns);
		CHECK(roce_check(qp));
		cq_give_events();
		qp_unlock(qp);
		roce_flush();
	}
	timer_announce();
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a QP of this path: those of its send queue, windows, timers and owed packets. Of
 * another path: those of its send queue.
 */
void roce_check(const struct qp *qp)
{
	const struct roce_qp *tq = roce_of(qp);

	qp_check(qp);
	if (!tq)
		return;
	sendq_check(tq);
	retransmit_check(tq);
	congestion_check(tq);
	responder_check(tq);
}
#endif
