/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reaction - carries out what a verdict means for the responder's own QP.
 *
 * Order for a reaction that fails the QP (CONTRACT 15):
 *
 *   1  reaction_begin
 *   2  the transport sends the acknowledgements and responses of earlier requests
 *   3  reaction_end: completions are in the CQ, and the QP is in ERR
 *   4  the transport sends the NAK
 *
 * Callers hold the QP's lock.
 */
#ifndef EXECUTE_REACTION_H
#define EXECUTE_REACTION_H

#include <stdint.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "object/qp.h"

/* The request, as the reported cause names it. */
struct refused_request {
	const char *unit; /* what `number` counts: "PSN", "message" */
	uint32_t number;
	uint32_t src_qpn;
	uint32_t rkey;
	uint64_t address;
	uint32_t length;
};

/* The reaction to a verdict, for the QP's service. */
const struct reaction *reaction_of(const struct qp *qp, enum verdict verdict);

/* Reports the cause, and sets the status that the message's receive will complete with. */
void reaction_begin(struct qp *qp, const struct reaction *reaction, enum cause cause,
		    const struct refused_request *request);

/* Raises the reaction's async event, and moves the QP to ERR. */
void reaction_end(struct qp *qp, const struct reaction *reaction, enum cause cause)
	REQUIRES(qp->lock);

/* UC: reports that the responder dropped the message. */
void reaction_drop(struct qp *qp, enum cause cause, const struct refused_request *request);

#endif
