/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmit - what a QP sends leaves here: requests, responses, and the acknowledgements owed, which
 * are merged with them.
 *
 * In:  requests that the requester has put into the burst; what the responder owes (response.h).
 * Out: packets, in the order that the other end relies on; what the socket does not take goes back
 * to where it came from.
 *
 * A struct transmit is one call's: it owns the burst of requests, from transmit_begin to
 * transmit_end. A piggybacked acknowledgement leaves behind the requests, in their GSO batch.
 * Callers hold the QP's lock. Never waits.
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
	TRANSMIT_SENT,	/* or lost on the way out; so it counts as sent */
	TRANSMIT_FULL,	/* the socket takes no more now */
	TRANSMIT_FAULT, /* the payload of the next packet cannot be read */
};

/* An empty burst. False: out of memory, and the QP's timer tries again. */
bool transmit_begin(struct transmit *transmit, struct roce_qp *tq);

/*
 * Sends the requests in the burst, and an acknowledgement with them if one is owed. Unless
 * TRANSMIT_SENT, *unsent is the PSN of the first request that did not leave: the requester goes
 * back to it.
 */
enum transmit_result transmit_requests(struct transmit *transmit, uint32_t *unsent);

/* Requests that are still in the burst are dropped. */
void transmit_end(struct transmit *transmit);

/*
 * Sends what the responder owes, responses first, so that nothing acknowledges a READ before its
 * response. A READ whose memory is not accessible any more may fail the QP.
 */
void transmit_owed(struct roce_qp *tq);

/*
 * Sends the acknowledgement, the only thing that is owed (response_is_ack_only), and unlocks the QP
 * before the packet leaves: a program that sees its data come may be about to post. False: the
 * socket did not take it, and the caller sees to it that it is owed again; the QP may be gone by
 * now.
 */
bool transmit_ack_and_unlock(struct qp *qp, struct roce_qp *tq) RELEASES(qp->lock);

/*
 * Another thread acknowledged last, and acknowledgements are leaving: that one may not have left
 * yet.
 */
bool transmit_ack_may_be_late(const struct roce_qp *tq);

/* No other thread is there. */
void transmit_reset_after_fork(void);

#endif
