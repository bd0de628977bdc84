/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/congestion.h"

#include <string.h>

#include "base/check.h"
#include "base/counter.h"
#include "roce/flush_list.h"
#include "roce/roce_env.h"

#define CNP_OPCODE	   0x81
#define CNP_RESERVED_BYTES 16

void congestion_on_mark(struct roce_qp *tq)
{
	qp_count(tq->qp, COUNTER_NP_ECN_MARKED_ROCE_PACKETS);
	tq->congestion_seen = true;
	flush_list_add(tq);
}

void congestion_on_backlog(struct roce_qp *tq)
{
	tq->congestion_seen = true;
	flush_list_add(tq);
}

bool congestion_send_cnp(struct qp *qp, const struct wire_flow *to, uint32_t dest_qpn)
{
	static const uint8_t reserved[CNP_RESERVED_BYTES];
	const struct packet header = {
		.opcode = CNP_OPCODE,
		.becn = true,
		.pkey = PACKET_PKEY,
		.dest_qpn = dest_qpn,
	};
	struct wire_packet packet = {
		.payload_bytes = sizeof(reserved),
		.pieces = 1,
		.pinned = true,
		.piece = { { (void *)reserved, sizeof(reserved) } },
	};
	struct wire_flow flow = *to;
	unsigned sent;

	flow.traffic_class &= (uint8_t)~WIRE_ECN_MASK;
	packet.header_bytes = (uint16_t)packet_encode(&header, packet.header);
	if (roce_env.send(&flow, &packet, 1, &sent) != WIRE_SENT)
		return false;
	qp_count(qp, COUNTER_NP_CNP_SENT);
	return true;
}

void congestion_notify(struct roce_qp *tq, uint64_t now_ns)
{
	if (!tq->congestion_seen)
		return;
	tq->congestion_seen = false;
	if (tq->cnp_ns && now_ns - tq->cnp_ns < CONGESTION_CNP_NS)
		return;
	/* If it cannot be sent, the next marked packet causes another. */
	if (congestion_send_cnp(tq->qp, &tq->flow, tq->qp->attr.dest_qp_num))
		tq->cnp_ns = now_ns;
}

/* Counts the packets of an interval that has ended as acknowledged. */
static void roll(struct roce_qp *tq, uint64_t now_ns)
{
	struct response_pace *pace = &tq->response_pace;

	if (now_ns - pace->since_ns < RESPONSE_INTERVAL_NS)
		return;
	pace->most = pace->sent > pace->most ? pace->sent : pace->most - pace->most / 8;
	if (pace->bounded) {
		window_on_ack(&pace->window, pace->sent, pace->number,
			      pace->sent >= pace->window.size);
		pace->bounded = pace->window.size < pace->window.max;
	}
	pace->since_ns = now_ns;
	pace->sent = 0;
}

/* False: no responses were sent lately, so they did not cause the congestion. */
static bool begin_bound(struct roce_qp *tq, uint64_t now_ns)
{
	struct response_pace *pace = &tq->response_pace;
	uint32_t most = pace->sent > pace->most ? pace->sent : pace->most;

	if (!most || now_ns - pace->since_ns > RESPONSE_RECENT_NS)
		return false;
	if (pace->bounded)
		return true;
	window_start(&pace->window, tq->mtu, tq->flow.buffer_bytes);
	if (most > pace->window.size)
		pace->window.size = most < pace->window.max ? most : pace->window.max;
	pace->bounded = true;
	return true;
}

void congestion_on_notification(struct roce_qp *tq, uint64_t now_ns)
{
	qp_count(tq->qp, COUNTER_RP_CNP_HANDLED);
	window_on_mark(&tq->window, tq->next_psn);
	pace_on_mark(&tq->pace, now_ns);
	if (begin_bound(tq, now_ns))
		window_on_mark(&tq->response_pace.window, psn_add(tq->response_pace.number, 1));
}

void congestion_on_repeated_read(struct roce_qp *tq, uint64_t now_ns)
{
	if (begin_bound(tq, now_ns))
		window_on_loss(&tq->response_pace.window, psn_add(tq->response_pace.number, 1));
}

uint32_t congestion_allows(struct roce_qp *tq, uint64_t now_ns)
{
	struct response_pace *pace = &tq->response_pace;

	roll(tq, now_ns);
	if (!pace->bounded)
		return UINT32_MAX;
	return pace->sent < pace->window.size ? pace->window.size - pace->sent : 0;
}

uint64_t congestion_next_ns(const struct roce_qp *tq)
{
	return tq->response_pace.since_ns + RESPONSE_INTERVAL_NS;
}

void congestion_on_sent(struct roce_qp *tq, uint32_t packets, uint64_t now_ns)
{
	struct response_pace *pace = &tq->response_pace;

	roll(tq, now_ns);
	pace->sent += packets;
	pace->number = psn_add(pace->number, packets);
}

void congestion_forget(struct roce_qp *tq)
{
	tq->congestion_seen = false;
	tq->response_pace = (struct response_pace){ 0 };
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of a QP's windows:
 * - those of roce/window.h for its requests, once it has started;
 * - the same for its responses, while they are bounded.
 */
void congestion_check(const struct roce_qp *tq)
{
	if (tq->started)
		window_check(&tq->window);
	if (tq->response_pace.bounded)
		window_check(&tq->response_pace.window);
}
#endif
