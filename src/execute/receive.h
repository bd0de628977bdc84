/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive - the receive request that a QP's current message is delivered to.
 *
 * In:  receives from the QP's own queue or its SRQ; payload, in order.
 * Out: data in the program's memory; the receive's completion.
 *
 * A QP delivers one message at a time, so it has at most one of them (qp->receive). Callers hold
 * the QP's lock; takes the locks of RQ and CQ.
 */
#ifndef EXECUTE_RECEIVE_H
#define EXECUTE_RECEIVE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "object/qp.h"

/* How a receive ends: the fields of struct ibv_wc. */
struct receive_end {
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
	enum cause cause;
	uint32_t byte_len;
	uint32_t wc_flags; /* enum ibv_wc_flags */
	uint32_t imm;      /* network order; or the R_Key that was invalidated */
	uint32_t src_qp;
	uint16_t slid;	   /* datagrams, base/lid.h */
	bool solicited;
};

/* Takes the next one, unless there is one already. False: none is posted. */
bool receive_take(struct qp *qp);

/*
 * The same for a SEND of at least `length` bytes: VERDICT_OK, VERDICT_NO_RECEIVE, or VERDICT_TOO_LONG
 * for the receive.
 */
enum verdict receive_take_for(struct qp *qp, uint64_t length, enum cause *cause);

/* A SEND's payload goes to `offset` of it: VERDICT_OK or VERDICT_RECEIVE_FAULT. */
enum verdict receive_deliver(struct qp *qp, size_t offset, const void *from, size_t bytes,
			     enum cause *cause);

/* Copies payload to `offset` of it. CAUSE_NONE, or why not, with the causes that name a receive. */
enum cause receive_scatter(struct qp *qp, size_t offset, const void *from, size_t bytes);

/* Makes its completion. */
void receive_complete(struct qp *qp, const struct receive_end *end);

/* The QP is about to fail because of it: then it completes with this instead of FLUSH_ERR. */
void receive_blame(struct qp *qp, enum ibv_wc_status status, enum cause cause);

/* The QP enters RESET or ERR: it is given back, or completes. */
void receive_stop(struct qp *qp);

#endif
