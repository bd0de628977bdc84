/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester - posted work becomes packets.
 *
 * In:  the QP's send queue, from sq.issue on; what the window and the retries allow.
 * Out: request packets, or finished WQEs.
 *
 * Callers hold the QP's lock. Never waits: what may not leave now stays in the queue, and
 * requester_transmit is called again when that changes. One call sends at most a window, and of a
 * UC QP what its pace allows.
 *
 * The requester requests a long READ in pieces of the window. Its responses are not acknowledged,
 * so that only the pieces bound how many of them are in flight.
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

/* Sends what may leave now of the send queue. The QP may be in ERR afterwards. */
void requester_transmit(struct roce_qp *tq);

/*
 * Nagle's algorithm (RFC 896) for small requests of a QP that has many of them on the way. True:
 * what was posted last may wait for more of its kind, with which it shares a GSO batch and the
 * responder's acknowledgement. It leaves at the latest when an acknowledgement comes, or the probe
 * is due.
 */
/* a program that posts so many before it needs the first is after throughput */
#define REQUESTER_MANY 8
bool requester_may_wait(const struct roce_qp *tq);

#endif
