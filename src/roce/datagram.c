/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/datagram.h"

#include <errno.h>
#include <string.h>

#include "base/counter.h"
#include "base/gid.h"
#include "object/ah.h"
#include "object/context.h"
#include "base/lid.h"
#include "memory/memory.h"
#include "execute/receive.h"
#include "object/qp_table.h"
#include "packet/grh.h"
#include "roce/roce_env.h"
#include "roce/unknown_qp.h"

#define MULTICAST_QPN	0xffffffu
#define PRIVILEGED_QKEY 0x80000000u /* stands for the QP's own (IBA 10.2.5) */
#define MTU_MAX		4096
/* arrival->length is without the UDP header and the ICRC. */
#define UDP_HEADER_BYTES   8
#define ICRC_TRAILER_BYTES 4
/*
 * A datagram that was addressed by LID alone (base/lid.h) is sent as Not-ECT, which routers never
 * set. So its receiver recognizes it, and gives its program no GRH.
 */
/*
 * Bytes that a datagram costs its receiver's buffer beside its payload: each is a packet of its
 * own.
 */
#define DATAGRAM_EXTRA 512

enum wire_result datagram_transmit(struct qp *qp, struct wqe *wqe, enum cause *cause)
{
	const struct ibv_ah_attr *address = &wqe->ah->attr;
	const uint8_t *data = wqe_data(wqe);
	bool imm = opcodes[wqe->opcode].has_imm;
	uint8_t copy[MTU_MAX];
	struct packet header = {
		.opcode = (uint8_t)packet_find_opcode(PACKET_UD, OPERATION_SEND, true, true,
						      imm ? PACKET_HAS_IMM : 0),
		.pad = (uint8_t)(-wqe->length & 3),
		.solicited = wqe->flags & IBV_SEND_SOLICITED,
		.pkey = PACKET_PKEY,
		.dest_qpn =
			gid_is_multicast(address->grh.dgid.raw) ? MULTICAST_QPN : wqe->remote_qpn,
		.psn = qp->datagram_psn,
		.imm = wqe->imm,
		.qkey = wqe->remote_qkey & PRIVILEGED_QKEY ? qp->attr.qkey : wqe->remote_qkey,
		.src_qpn = qp->ib.qp_num,
	};
	struct wire_packet packet = {
		.payload_bytes = (uint16_t)wqe->length,
		.pad_bytes = header.pad,
		.pieces = 1,
		.pinned = true,
		.piece = { { data ? (uint8_t *)data : copy, wqe->length } },
	};
	uint32_t cost = wqe->length + DATAGRAM_EXTRA;
	struct wire_flow flow;
	enum wire_result result;
	unsigned sent;
	int error;

	*cause = CAUSE_NONE;
	if (wqe->length > qp_mtu(qp) || wqe->length > sizeof(copy)) {
		*cause = CAUSE_MESSAGE_TOO_LONG;
		return WIRE_FAULT;
	}
	if (!data) {
		*cause =
			memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, 0, copy, wqe->length);
		if (*cause != CAUSE_NONE)
			return WIRE_FAULT;
	}
	if (!pace_allows(&qp->datagram_pace, cost, roce_env.now()))
		return WIRE_FULL;
	error = roce_env.resolve(qp->context, address, header.dest_qpn, &flow);
	if (error == EINPROGRESS)
		return WIRE_NO_PORT;
	if (error)
		return WIRE_SENT; /* the cause is reported; the datagram counts as lost */
	if (wqe->ah->without_grh)
		flow.traffic_class &= (uint8_t)~WIRE_ECN_MASK;
	packet.header_bytes = (uint16_t)packet_encode(&header, packet.header);
	result = roce_env.send(&flow, &packet, 1, &sent);
	if (result == WIRE_FULL) {
		counter_add(COUNTER_SOCKET_FULL);
		return WIRE_FULL;
	}
	pace_use(&qp->datagram_pace, cost);
	qp->datagram_psn = psn_add(qp->datagram_psn, 1);
	if (result == WIRE_NO_ROUTE && !qp->no_route)
		cause_report(
			CAUSE_NO_PATH, qp->ib.qp_num,
			"the system does not send the datagram: the interface is down, or there is "
			"no route");
	qp->no_route = result == WIRE_NO_ROUTE;
	if (result == WIRE_TOO_LONG)
		cause_report_ratelimited(CAUSE_PATH_TOO_NARROW, qp->ib.qp_num,
					 "datagram of %u bytes", wqe->length);
	return WIRE_SENT;
}

static bool receives(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return qp->type == IBV_QPT_UD && (state == IBV_QPS_RTR || state == IBV_QPS_RTS ||
					  state == IBV_QPS_SQD || state == IBV_QPS_SQE);
}

/* IBA 9.8.3: drops a datagram that does not fit; the next one gets its receive. */
static bool accept_packet(struct qp *qp, const struct packet *packet)
{
	uint32_t bytes = GRH_BYTES + packet->payload_bytes;

	if (!receives(qp)) {
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

static void deliver(struct qp *qp, const struct packet *packet, const struct wire_arrival *arrival)
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
		counter_add(COUNTER_DROPPED);
		return;
	}
	build_header(qp, arrival, grh, &end);
	end.cause = receive_scatter(qp, 0, grh, GRH_BYTES);
	if (end.cause == CAUSE_NONE)
		end.cause = receive_scatter(qp, GRH_BYTES, packet->payload, packet->payload_bytes);
	if (end.cause == CAUSE_NONE) {
		end.byte_len = GRH_BYTES + packet->payload_bytes;
		end.wc_flags |= imm ? IBV_WC_WITH_IMM : 0;
		end.imm = packet->imm;
	} else {
		end.status = IBV_WC_LOC_PROT_ERR;
		end.wc_flags = 0;
		cause_report(end.cause, qp->ib.qp_num, "datagram from QP 0x%06x", packet->src_qpn);
	}
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
