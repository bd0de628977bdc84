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
#ifndef ROCE_GAP_REPORT_H
#define ROCE_GAP_REPORT_H

#include <stdbool.h>

#include "roce/roce_qp.h"

/* The connection is new, or ends. */
void gap_report_start(struct roce_qp *tq);

/* A request came. */
static inline void gap_report_on_request(struct roce_qp *tq, const struct packet *packet)
{
	tq->gap_reports.wanted |= packet->gap_report;
}

/* It was kept; `alone`: nothing else is. */
void gap_report_on_kept(struct roce_qp *tq, const struct packet *packet, bool alone);

static inline bool gap_report_is_owed(const struct roce_qp *tq)
{
	return tq->gap_reports.count != 0;
}

/* Those of gaps that are still open. What the socket does not take is not sent. */
void gap_report_send(struct roce_qp *tq);

#endif
