/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Request - the segments of the request at sq.issue.
 *
 * In:  a WQE.
 * Out: its next segment in the burst; outstanding READs and atomics.
 *
 * Callers hold the QP's lock. Never waits.
 */
#ifndef IWARP_REQUEST_H
#define IWARP_REQUEST_H

#include "iwarp/gather.h"

enum request_turn {
	REQUEST_READY, /* the request at sq.issue has a segment to send */
	REQUEST_NONE,  /* nothing is posted, or it waits: a fence, ORD, a key in use */
	REQUEST_FLUSH, /* the burst has to leave first */
	REQUEST_OVER,  /* the QP has failed */
};

/*
 * Executes requests of this end (BIND_MW, LOCAL_INV) up to one that has something to send. Not in
 * the middle of a message.
 */
enum request_turn request_next(struct iwarp_qp *iq, const struct gather *gather)
	REQUIRES(iq->qp->lock);

/* Adds one segment. GATHER_ADDED may end the message: sending.in_message. */
enum gather_result request_add(struct iwarp_qp *iq, struct gather *gather, enum cause *cause);

#endif
