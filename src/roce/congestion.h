/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion - ECN and congestion notification packets (CNPs), as DCQCN uses them, in both
 * directions.
 *
 * In:  packets that a router marked (ECN CE); of UC and UD, packets behind which the socket fills
 *      (wire_arrival.backlogged); CNPs (annex A17.9.3) from the other end; duplicate READs of a
 *      requester that goes back.
 * Out: CNPs; a smaller window, of UC and UD a slower pace (base/pace.h); how many response packets
 *      may leave now.
 *
 * A requester's packets are bounded by its window (roce/window.h), which acknowledgements move.
 * Responses are not acknowledged, so their window is one of time: packets of one
 * RESPONSE_INTERVAL_NS count as acknowledged in the next. There is no bound before the first sign
 * of congestion. Then the window begins with the most packets of a recent interval, or with a
 * requester's first window if that is more. From then on it shrinks and grows as a requester's
 * does; at its maximum the bound ends.
 *
 * CNPs are Not-ECT, so that no router marks them, and a marked CNP causes no CNP: otherwise two
 * ends would send each other CNPs for as long as the congestion lasts.
 *
 * Callers hold the QP's lock.
 */
#ifndef ROCE_CONGESTION_H
#define ROCE_CONGESTION_H

#include "roce/roce_qp.h"

#define CONGESTION_CNP_NS    50000ull	 /* between two CNPs of a QP */
#define RESPONSE_INTERVAL_NS 100000ull	 /* stands for a round trip */
#define RESPONSE_RECENT_NS   10000000ull /* later signs of congestion are not about responses */

/* A router has marked a packet of this connection that is not a CNP. */
void congestion_on_mark(struct roce_qp *tq);

/* UC: the socket overflows soon (wire_arrival.backlogged), and nothing else slows the other end. */
void congestion_on_backlog(struct roce_qp *tq);

/* A CNP came. */
void congestion_on_notification(struct roce_qp *tq, uint64_t now_ns);

/*
 * A duplicate READ, asked for anew: its responses, or those before it, were lost. One that is asked
 * for as the original is none: that requester's window bounds its responses (roce/read_repair.h).
 */
void congestion_on_repeated_read(struct roce_qp *tq, uint64_t now_ns);

/* Sends a CNP to the QP. False: the socket did not take it. */
bool congestion_send_cnp(struct qp *qp, const struct wire_flow *flow, uint32_t dest_qpn);

/* Sends the CNP that is owed, unless the last one was just now. */
void congestion_notify(struct roce_qp *tq, uint64_t now_ns);

/* Response packets that may leave now; UINT32_MAX: as many as there are. */
uint32_t congestion_allows(struct roce_qp *tq, uint64_t now_ns);

/* When congestion_allows will give more than it just did. */
uint64_t congestion_next_ns(const struct roce_qp *tq);

/* So many response packets were sent. */
void congestion_on_sent(struct roce_qp *tq, uint32_t packets, uint64_t now_ns);

/* The QP leaves its connection. */
void congestion_forget(struct roce_qp *tq);

/* base/check.h */
void congestion_check(const struct roce_qp *tq);

#endif
