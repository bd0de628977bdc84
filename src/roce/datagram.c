/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/datagram.h"

#include <errno.h>
#include <string.h>

#include "base/counter.h"
#include "base/gid.h"
#include "object/ah.h"
#include "object/context.h"
#include "base/lid.h"
#include "execute/receive.h"
#include "object/qp_table.h"
#include "packet/grh.h"
#include "roce/burst.h"
#include "roce/congestion.h"
#include "roce/gso.h"
#include "roce/payload.h"
#include "roce/roce_env.h"
#include "execute/unknown_qp.h"

#define MULTICAST_QPN	0xffffffu
#define PRIVILEGED_QKEY 0x80000000u /* stands for the QP's own (IBA 10.2.5) */
/* arrival->length is without the UDP header and the ICRC. */
#define UDP_HEADER_BYTES   8
#define ICRC_TRAILER_BYTES 4

static uint32_t cost_of(const struct wqe *wqe)
{
	return wqe->length + WIRE_PACKET_EXTRA;
}

static struct packet header_of(const struct qp *qp, const struct wqe *wqe, psn_t psn)
{
	bool imm = opcodes[wqe->opcode].has_imm;

	return (struct packet){
		.opcode = (uint8_t)packet_find_opcode(PACKET_UD, OPERATION_SEND, true, true,
						      imm ? PACKET_HAS_IMM : 0),
		.solicited = wqe->flags & IBV_SEND_SOLICITED,
		.dest_qpn = gid_is_multicast(wqe->ah->attr.grh.dgid.raw) ? MULTICAST_QPN
									 : wqe->remote_qpn,
		.psn = psn,
		.imm = wqe->imm,
		.qkey = wqe->remote_qkey & PRIVILEGED_QKEY ? qp->attr.qkey : wqe->remote_qkey,
		.src_qpn = qp->ib.qp_num,
	};
}

/* Adds the datagram to the burst. */
static enum payload_result add(struct burst *burst, const struct qp *qp, struct wqe *wqe,
			       enum cause *cause)
{
	struct packet header = header_of(qp, wqe, psn_add(qp->datagram_psn, burst->count));
	enum payload_result result;

	*cause = CAUSE_MESSAGE_TOO_LONG;
	if (wqe->length > qp_mtu(qp))
		return PAYLOAD_BAD;
	result = payload_place(burst, qp, wqe, 0, wqe->length, cause);
	if (result == PAYLOAD_PLACED)
		burst_add(burst, &header);
	return result;
}

/* They are for one process, so they have one source port (base/source_port.h), and one flow. */
static bool is_alike(const struct wqe *wqe, const struct wqe *first)
{
	return wqe->ah == first->ah &&
	       wqe->remote_qpn >> ARENA_QP_BITS == first->remote_qpn >> ARENA_QP_BITS;
}

/*
 * Fills the burst from the datagram `seq` on, as far as the pace, the burst and their likeness
 * allow. A datagram that cannot be read is left for its own turn, unless it is the first.
 */
static enum wire_result fill(struct burst *burst, struct qp *qp, uint32_t seq, unsigned most,
			     uint32_t allowed, enum cause *cause)
{
	const struct wqe *first = sq_wqe(&qp->sq, seq);

	for (unsigned i = 0; i < most && !burst_is_full(burst); i++) {
		struct wqe *wqe = sq_wqe(&qp->sq, seq + i);
		uint32_t cost = cost_of(wqe);

		if (!is_alike(wqe, first) || cost > allowed)
			break;
		switch (add(burst, qp, wqe, cause)) {
		case PAYLOAD_PLACED:
			allowed -= cost;
			continue;
		case PAYLOAD_BAD:
			if (!i)
				return WIRE_FAULT;
			break;
		case PAYLOAD_NO_ROOM:
			break;
		}
		break;
	}
	*cause = CAUSE_NONE;
	return burst->count ? WIRE_SENT : WIRE_FULL;
}

/* The first datagram that was not sent is lost, unless the socket was full. */
static void report_lost(struct qp *qp, enum wire_result result, const struct wqe *wqe)
{
	if (result == WIRE_NO_ROUTE && !qp->no_route)
		cause_report(
			CAUSE_NO_PATH, qp->ib.qp_num,
			"the system does not send the datagram: the interface is down, or there is "
			"no route");
	qp->no_route = result == WIRE_NO_ROUTE;
	if (result == WIRE_TOO_LONG)
		cause_report_ratelimited(CAUSE_PATH_TOO_NARROW, qp->ib.qp_num,
					 "datagram of %u bytes", wqe->length);
}

static enum wire_result send_burst(struct qp *qp, uint32_t seq, struct burst *burst, unsigned *sent)
{
	psn_t unsent;
	enum wire_result result = burst_send(burst, &unsent);

	*sent = burst->left;
	if (result == WIRE_FULL)
		qp_count(qp, COUNTER_SOCKET_FULL);
	else
		report_lost(qp, result, sq_wqe(&qp->sq, seq + *sent));
	if (result != WIRE_FULL && result != WIRE_SENT)
		(*sent)++;
	for (unsigned i = 0; i < *sent; i++)
		pace_use(&qp->datagram_pace, cost_of(sq_wqe(&qp->sq, seq + i)));
	qp->datagram_psn = psn_add(qp->datagram_psn, *sent);
	return *sent ? WIRE_SENT : WIRE_FULL;
}

enum wire_result datagram_transmit(struct qp *qp, uint32_t seq, unsigned most, unsigned *sent,
				   enum cause *cause)
{
	const struct wqe *wqe = sq_wqe(&qp->sq, seq);
	const struct ibv_ah_attr *address = &wqe->ah->attr;
	struct wire_flow flow;
	enum wire_result result;
	struct burst *burst;
	int error;

	*cause = CAUSE_NONE;
	*sent = 1;
	error = roce_env.resolve(
		qp->context, address,
		gid_is_multicast(address->grh.dgid.raw) ? MULTICAST_QPN : wqe->remote_qpn, &flow);
	if (error == EINPROGRESS)
		return WIRE_NO_PORT;
	if (error)
		return WIRE_SENT; /* the cause is reported; the datagram counts as lost */
	/*
	 * A datagram that was addressed by LID alone (base/lid.h) is sent as Not-ECT, which routers
	 * never set. So its receiver recognizes it, and gives its program no GRH.
	 */
	if (wqe->ah->without_grh)
		flow.traffic_class &= (uint8_t)~WIRE_ECN_MASK;
	gso_start_flow(&flow);
	burst = burst_get(&flow);
	if (!burst)
		return WIRE_FULL;
	result =
		fill(burst, qp, seq, most,
		     pace_allows(&qp->datagram_pace, pace_burst(flow.buffer_bytes), roce_env.now()),
		     cause);
	if (result == WIRE_SENT)
		result = send_burst(qp, seq, burst, sent);
	burst_put(burst);
	return result;
}

/* IBA 9.8.3: drops a datagram that does not fit; the next one gets its receive. */
static bool accept_packet(struct qp *qp, const struct packet *packet)
{
	uint32_t bytes = GRH_BYTES + packet->payload_bytes;

	if (!receive_takes_datagrams(qp)) {
		cause_report_ratelimited(CAUSE_UD_NO_QP, qp->ib.qp_num, "from QP 0x%06x",
					 packet->src_qpn);
		return false;
	}
	if (packet->qkey != qp->attr.qkey) {
		cause_report_ratelimited(CAUSE_QKEY_MISMATCH, qp->ib.qp_num,
					 "0x%x from QP 0x%06x, mine is 0x%x", packet->qkey,
					 packet->src_qpn, qp->attr.qkey);
		return false;
	}
	if (!receive_take(qp)) {
		cause_report_ratelimited(CAUSE_UD_NO_RECEIVE, qp->ib.qp_num, "from QP 0x%06x",
					 packet->src_qpn);
		return false;
	}
	if (bytes > qp->receive.length) {
		cause_report_ratelimited(CAUSE_UD_TOO_LONG, qp->ib.qp_num,
					 "%u bytes with GRH, the receive takes %u", bytes,
					 qp->receive.length);
		return false;
	}
	return true;
}

/* The GRH: as on the wire, or rewritten for the link mode with LIDs. */
static void build_header(struct qp *qp, const struct wire_arrival *arrival, uint8_t grh[GRH_BYTES],
			 struct receive_end *end)
{
	bool infiniband = qp->context->infiniband;
	const struct wire_flow *flow = arrival->flow;
	const struct grh_fields fields = {
		.source = flow->remote,
		.destination = flow->local,
		.traffic_class =
			flow->traffic_class & (infiniband ? (uint8_t)~WIRE_ECN_MASK : 0xff),
		.hop_limit = flow->hop_limit,
		.flow_label = flow->flow_label,
		.udp_bytes = UDP_HEADER_BYTES + arrival->length + ICRC_TRAILER_BYTES,
	};

	grh_build(grh, &fields);
	end->wc_flags = IBV_WC_GRH;
	if (!infiniband)
		return;
	end->slid = lid_rewrite_grh(grh);
	if (!(flow->traffic_class & WIRE_ECN_MASK)) {
		end->wc_flags = 0;
		memset(grh, 0, GRH_BYTES);
	}
}

/* Sends a CNP to the QP of a datagram that a router marked, or behind which the socket fills. */
static void notify(struct qp *qp, const struct packet *packet, const struct wire_arrival *arrival)
{
	struct wire_flow flow;
	bool marked = (arrival->flow->traffic_class & WIRE_ECN_MASK) == WIRE_ECN_CE;

	if ((!marked && !arrival->backlogged) || !receive_takes_datagrams(qp) ||
	    packet->qkey != qp->attr.qkey || gid_is_multicast(arrival->flow->local))
		return;
	if (marked)
		qp_count(qp, COUNTER_NP_ECN_MARKED_ROCE_PACKETS);
	if (qp->datagram_cnp_ns && arrival->when_ns - qp->datagram_cnp_ns < CONGESTION_CNP_NS)
		return;
	roce_env.answer(arrival->flow, packet->src_qpn, &flow);
	if (congestion_send_cnp(qp, &flow, packet->src_qpn))
		qp->datagram_cnp_ns = arrival->when_ns;
}

void datagram_on_notification(struct qp *qp)
{
	qp_count(qp, COUNTER_RP_CNP_HANDLED);
	pace_on_mark(&qp->datagram_pace, roce_env.now());
}

static void deliver(struct qp *qp, const struct packet *packet, const struct wire_arrival *arrival)
	REQUIRES(qp->lock)
{
	bool imm = packet_opcode(packet->opcode)->headers & PACKET_HAS_IMM;
	struct receive_end end = {
		.opcode = IBV_WC_RECV,
		.status = IBV_WC_SUCCESS,
		.src_qp = packet->src_qpn,
		.solicited = packet->solicited,
	};
	uint8_t grh[GRH_BYTES];

	if (!accept_packet(qp, packet)) {
		qp_count(qp, COUNTER_DROPPED);
		return;
	}
	build_header(qp, arrival, grh, &end);
	end.cause = receive_scatter(qp, 0, grh, GRH_BYTES);
	if (end.cause == CAUSE_NONE)
		end.cause = receive_scatter(qp, GRH_BYTES, packet->payload, packet->payload_bytes);
	if (end.cause != CAUSE_NONE) {
		cause_report(end.cause, qp->ib.qp_num, "datagram from QP 0x%06x", packet->src_qpn);
		receive_fault(qp, &end, end.cause);
		return;
	}
	end.byte_len = GRH_BYTES + packet->payload_bytes;
	end.wc_flags |= imm ? IBV_WC_WITH_IMM : 0;
	end.imm = packet->imm;
	receive_complete(qp, &end);
}

struct delivery {
	const struct packet *packet;
	const struct wire_arrival *arrival;
};

static void deliver_to(uint32_t qpn, void *arg)
{
	const struct delivery *delivery = arg;
	struct qp *qp;

	if (!qp_find_locked(qpn, &qp)) {
		unknown_qp_count(qpn);
		return;
	}
	notify(qp, delivery->packet, delivery->arrival);
	deliver(qp, delivery->packet, delivery->arrival);
	cq_give_events();
	qp_unlock(qp);
}

void datagram_receive(const struct packet *packet, const struct wire_arrival *arrival)
{
	struct delivery delivery = { packet, arrival };
	union ibv_gid group;

	if (!gid_is_multicast(arrival->flow->local)) {
		deliver_to(packet->dest_qpn, &delivery);
		return;
	}
	if (packet->dest_qpn != MULTICAST_QPN)
		return;
	gid_canonical(group.raw, arrival->flow->local);
	roce_env.group_visit(&group, deliver_to, &delivery);
}
