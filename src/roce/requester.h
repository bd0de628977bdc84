/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester - makes packets of send requests.
 *
 * In:  the QP's send queue, from sq.issue on; what the window and the retries allow.
 * Out: request packets, or finished WQEs.
 *
 * Callers hold the QP's lock. Never waits: requests that may not be sent now stay in the queue, and
 * requester_transmit is called again when that changes. One call sends at most a window, or what
 * the pace of a UC QP allows.
 *
 * The requester requests a long READ in pieces of the window. Responses are not acknowledged, so
 * only the pieces bound how many of them are in flight.
 */
#ifndef ROCE_REQUESTER_H
#define ROCE_REQUESTER_H

#include "roce/roce_qp.h"

/* packets that are worth a system call: a GSO batch with a path MTU of 1024 */
#define REQUESTER_ENOUGH    62
#define REQUESTER_ACK_EVERY 16 /* packets of a message, for each acknowledgement asked for */

/* A READ is requested in so many pieces of the window, of at least so many packets. */
#define READ_PIECES    4
#define READ_PIECE_MIN 4

/* Sends as much of the send queue as it may now. The QP may be in ERR afterwards. */
void requester_transmit(struct roce_qp *tq);

/*
 * Nagle's algorithm (RFC 896) for small requests of a QP with many in flight. True: the last
 * request may wait for more of its kind, to share a GSO batch and the responder's acknowledgement
 * with them. It is sent at the latest when an acknowledgement comes, or the probe is due.
 */
/* a program that posts so many without waiting wants throughput */
#define REQUESTER_MANY 4
bool requester_may_wait(const struct roce_qp *tq);

#endif
