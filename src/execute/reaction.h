/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reaction - puts the verdict on a refused request into effect at this end.
 *
 * A transport whose reaction fails the QP calls reaction_begin, sends what it owes for earlier
 * requests, and calls reaction_end. Only then it tells the requester: by the time that the requester
 * knows, this end's completions are there and its QP is in ERR (CONTRACT 15).
 *
 * Callers hold the QP's lock.
 */
#ifndef EXECUTE_REACTION_H
#define EXECUTE_REACTION_H

#include <stdint.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "object/qp.h"

/* The request as the report names it. */
struct refused_request {
	const char *unit; /* what `number` counts: "PSN", "message" */
	uint32_t number;
	uint32_t src_qpn;
	uint32_t rkey;
	uint64_t address;
	uint32_t length;
};

/* For a QP of this service. */
const struct reaction *reaction_of(const struct qp *qp, enum verdict verdict);

/* Reports the cause, and says what the message's receive will complete with. */
void reaction_begin(struct qp *qp, const struct reaction *reaction, enum cause cause,
		    const struct refused_request *request);

/* Raises the reaction's event; the QP goes to ERR. */
void reaction_end(struct qp *qp, const struct reaction *reaction, enum cause cause)
	REQUIRES(qp->lock);

/* UC: reports that the message is dropped. */
void reaction_drop(struct qp *qp, enum cause cause, const struct refused_request *request);

#endif
