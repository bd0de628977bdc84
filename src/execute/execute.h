/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execute - the memory operations of a responder, for both transports.
 *
 * In:  a request's operands, and the range of memory that it names.
 * Out: data moved; a verdict, and the cause of one that is not VERDICT_OK.
 *
 * Each function checks in the order of IBA 9.7.4.1: right of the QP, length and alignment, R_Key.
 * Before that the transport checks connection, order, service, and the number of READs and atomics
 * that wait for their responses. receive.h has the SENDs.
 *
 * A request that contradicts itself gets VERDICT_INVALID and leaves *cause alone; the caller sets
 * the transport's own cause.
 *
 * Callers hold the QP's lock. Never waits; sleeps at most for a page fault.
 */
#ifndef EXECUTE_EXECUTE_H
#define EXECUTE_EXECUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cause.h"
#include "base/operation.h"
#include "execute/verdict.h"
#include "object/qp.h"

/* The memory that a RETH or AtomicETH names. */
struct remote_range {
	uint32_t rkey;
	uint32_t length;
	uint64_t address;
};

/* Raises COMM_EST for the first request of a connection in RTR. */
void execute_establish(struct qp *qp);

/* VERDICT_OK if the QP grants its peer `right` (enum ibv_access_flags), else VERDICT_ACCESS. */
enum verdict execute_check_right(const struct qp *qp, uint32_t right, enum cause *cause);

/*
 * SEND_WITH_INV: ends the bind of the window with this key. VERDICT_REVOKING: another thread still
 * copies by the key, and the requester has to send the message again. For *revoked see
 * mw_invalidate_once.
 */
enum verdict execute_invalidate(struct qp *qp, uint32_t rkey, uint32_t *revoked, enum cause *cause);

/*
 * WRITE, after execute_check_right: stores `bytes` in `count` pieces at the start of `range`.
 * `range` is all that is left of the message, and is checked as a whole, so a refused message
 * writes nothing.
 */
enum verdict execute_write(struct qp *qp, const struct remote_range *range,
			   const struct iovec *pieces, int count, uint32_t bytes,
			   enum cause *cause);

/*
 * READ, after execute_check_right. The transport then reads with memory_read_remote, for PD `pd`.
 */
enum verdict execute_check_read(const struct qp *qp, const struct remote_range *range, uint32_t pd,
				enum cause *cause);

/*
 * An operation of one packet: an atomic, ATOMIC_WRITE or FLUSH (IBA annex A19); others are
 * VERDICT_INVALID. The range of the first two is their word. VERDICT_OK writes an atomic's original
 * value to *before, in host order.
 */
enum verdict execute_single(struct qp *qp, enum operation operation,
			    const struct remote_range *range, const struct operands *operands,
			    uint64_t *before, enum cause *cause);

#endif
