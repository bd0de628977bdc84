/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive - delivers a QP's current message to a receive request.
 *
 * In:  receives from the QP's own queue or its SRQ; payload, in order.
 * Out: data in the program's memory; the receive's completion.
 *
 * A QP delivers one message at a time, so it has at most one current receive (qp->receive). Callers
 * hold the QP's lock. Takes the locks of the SRQ and the CQ.
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

/* The completion of a receive: fields of struct ibv_wc. */
struct receive_end {
	enum ibv_wc_opcode opcode;
	enum ibv_wc_status status;
	enum cause cause;
	uint32_t byte_len;
	uint32_t wc_flags; /* enum ibv_wc_flags */
	uint32_t imm;	   /* in network order, or the R_Key that was invalidated */
	uint32_t src_qp;
	uint16_t slid; /* datagrams, base/lid.h */
	bool solicited;
};

/* The QP is one for datagrams, in a state to receive them, and is not being destroyed. */
bool receive_takes_datagrams(const struct qp *qp);

/* Takes the next receive, unless the QP has a current one. False: none is posted. */
bool receive_take(struct qp *qp);

/*
 * The same for a SEND of at least `length` bytes: VERDICT_OK, VERDICT_NO_RECEIVE or
 * VERDICT_TOO_LONG.
 */
enum verdict receive_take_for(struct qp *qp, uint64_t length, enum cause *cause);

/* Copies a SEND's payload to `offset` of the receive: VERDICT_OK or VERDICT_RECEIVE_FAULT. */
enum verdict receive_deliver(struct qp *qp, size_t offset, const void *from, size_t bytes,
			     enum cause *cause);

/*
 * Copies payload to `offset` of the receive: CAUSE_NONE, or a cause that names the receive's
 * memory.
 */
enum cause receive_scatter(struct qp *qp, size_t offset, const void *from, size_t bytes);

/*
 * Ends the current receive, and fills in its completion. The caller pushes that to recv_cq, and
 * says whether it is solicited.
 */
void receive_finish(struct qp *qp, const struct receive_end *end, struct cqe *cqe);

/* Completes the current receive. */
void receive_complete(struct qp *qp, const struct receive_end *end);

/*
 * The current receive of a datagram or frame cannot take it, by a fault of its program: it
 * completes with LOC_PROT_ERR, and the QP enters ERR, as all receives that fail make it
 * (IBA 10.10.2.3).
 */
void receive_fault(struct qp *qp, struct receive_end *end, enum cause cause) REQUIRES(qp->lock);

/* Sets the status of the current receive for when the QP fails, in place of FLUSH_ERR. */
void receive_blame(struct qp *qp, enum ibv_wc_status status, enum cause cause);

/* The QP enters RESET or ERR: returns the current receive to its SRQ, or completes it. */
void receive_stop(struct qp *qp);

#endif
