/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gap report - tells the requester of gaps behind the first one (multi-selective reject).
 *
 * In:  requests that are kept behind a gap (packet/kept.h).
 * Out: for each further gap, and what the NAK for the first one does not have repaired, a NAK with
 *      packet.gap_report, at the flush.
 *
 * A NAK of the IBA acknowledges all before its PSN, so it can only tell of the first gap. Where
 * many are open, one was repaired in each round trip. A report acknowledges nothing. It is sent to
 * a requester that has asked for it (packet.gap_report of a request) and once for each gap: if it
 * is lost, the NAK follows when the gap is the first one.
 *
 * Callers hold the QP's lock.
 */
#include "roce/response.h"

#include "packet/kept.h"
#include "roce/burst.h"
#include "roce/repair.h"
#include "roce/transmit.h"

void gap_report_start(struct roce_qp *tq)
{
	tq->gap_reports = (struct gap_reports){ 0 };
}

/* The PSN behind a request: a READ takes those of its responses. */
static psn_t end_of(const struct roce_qp *tq, const struct packet *packet)
{
	bool is_read = packet_opcode(packet->opcode)->kind == OPERATION_READ;
	uint32_t length = is_read && packet->length <= LIMIT_MESSAGE ? packet->length : 0;

	return psn_add(packet->psn, packets_of(length, tq->mtu));
}

void gap_report_on_kept(struct roce_qp *tq, const struct packet *packet, bool alone)
{
	struct gap_reports *reports = &tq->gap_reports;
	psn_t end = end_of(tq, packet);

	if (alone) /* the NAK has two sent again */
		reports->seen = psn_add(tq->expected_psn, REPAIR_RUN);
	if (reports->wanted && psn_after(packet->psn, reports->seen) && reports->count < GAPS_MAX)
		reports->gaps[reports->count++] = (struct gap){ reports->seen, packet->psn };
	if (psn_after(end, reports->seen))
		reports->seen = end;
}

/* Packets that were overtaken have come meanwhile, or kept ones were dropped. */
static bool is_open(const struct roce_qp *tq, const struct gap *gap)
{
	return psn_after(gap->first, tq->expected_psn) && kept_any(tq->kept) &&
	       !kept_has(tq->kept, gap->first);
}

void gap_report_send(struct roce_qp *tq)
{
	struct gap_reports *reports = &tq->gap_reports;
	struct packet header = {
		.opcode = (uint8_t)packet_find_opcode(roce_service(tq->qp), PACKET_ACK, true, true,
						      0),
		.pkey = PACKET_PKEY,
		.dest_qpn = tq->qp->attr.dest_qp_num,
		.syndrome = PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE,
		.gap_report = true,
	};
	struct transmit out;
	psn_t unsent;

	if (transmit_begin(&out, tq)) {
		for (uint32_t i = 0; i < reports->count; i++) {
			const struct gap *gap = &reports->gaps[i];

			if (!is_open(tq, gap))
				continue;
			header.psn = gap->first;
			header.msn = (uint32_t)psn_diff(gap->end, gap->first);
			burst_add(out.burst, &header);
		}
		if (out.burst->count)
			burst_send(out.burst, &unsent);
		transmit_end(&out);
	}
	reports->count = 0;
}
