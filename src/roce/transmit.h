/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit - sends all packets of a QP: requests, responses, and owed acknowledgements, which it
 * merges with them.
 *
 * In:  requests that the requester has put into the burst; packets that the responder owes
 *      (response.h).
 * Out: packets, in the order that the other end relies on. Those that the socket does not take go
 *      back to requester or responder.
 *
 * A struct transmit is one call's: it owns the burst of requests, from transmit_begin to
 * transmit_end. A piggybacked acknowledgement follows the requests, in their GSO batch. Callers
 * hold the QP's lock. Never waits.
 */
#ifndef ROCE_TRANSMIT_H
#define ROCE_TRANSMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

#define TRANSMIT_AGAIN_NS      100000 /* after the socket was full */
#define TRANSMIT_RESPONSES_MAX 256    /* response packets in one call */

struct burst;

struct transmit {
	struct roce_qp *tq;
	struct burst *burst;
	uint64_t now_ns;
};

enum transmit_result {
	TRANSMIT_SENT,	/* or dropped by this host, which counts as sent */
	TRANSMIT_FULL,	/* the socket is full */
	TRANSMIT_FAULT, /* the payload of the next packet cannot be read */
};

/* An empty burst. False: out of memory, and the QP's timer tries again. */
bool transmit_begin(struct transmit *transmit, struct roce_qp *tq);

/*
 * Sends the requests in the burst, and an acknowledgement with them if one is owed. Unless
 * TRANSMIT_SENT, *unsent is the PSN of the first packet that was not sent: the requester goes back
 * to it.
 */
enum transmit_result transmit_requests(struct transmit *transmit, psn_t *unsent);

/* Drops requests that are still in the burst. */
void transmit_end(struct transmit *transmit);

/*
 * Sends what the responder owes, responses first, so that nothing acknowledges a READ before its
 * response. A READ whose memory is no longer accessible may fail the QP.
 */
void transmit_owed(struct roce_qp *tq);

/*
 * Sends the acknowledgement, which is all that is owed (response_is_ack_only), and unlocks the QP
 * before the packet leaves: a program that sees its data may be about to post. False: the socket
 * did not take it, and the caller makes it owed again; the QP may be destroyed by now.
 */
bool transmit_ack_and_unlock(struct qp *qp, struct roce_qp *tq) RELEASES(qp->lock);

/* Another thread made the last acknowledgement, and may not have sent it yet. */
bool transmit_ack_may_be_late(const struct roce_qp *tq);

/* In the child of a fork. */
void transmit_reset_after_fork(void);

#endif
