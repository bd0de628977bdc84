/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execute - what the responder of either transport does to this process's memory for a request.
 *
 * In:  a request's operands, and the range of memory that it names.
 * Out: the bytes moved; a verdict, and with one that is not VERDICT_OK its cause.
 *
 * Each function makes the checks of its operation in the order of IBA 9.7.4.1: right of the QP, length
 * and alignment, R_Key. What comes before is the transport's: connection, order, service, and whether
 * one more READ or atomic may wait for its response. SENDs are in receive.h.
 *
 * A request that contradicts itself gets VERDICT_INVALID with *cause as it was: the caller sets it to
 * what its transport calls that.
 *
 * Callers hold the QP's lock. Never waits; sleeps at most for a page fault.
 */
#ifndef EXECUTE_EXECUTE_H
#define EXECUTE_EXECUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cause.h"
#include "execute/verdict.h"
#include "object/qp.h"

/* What a RETH or AtomicETH names. */
struct remote_range {
	uint32_t rkey;
	uint32_t length;
	uint64_t address;
};

/* The first request of a connection in RTR raises COMM_EST. */
void execute_establish(struct qp *qp);

/* The QP grants its peer `right` (enum ibv_access_flags); else VERDICT_ACCESS. */
enum verdict execute_check_right(const struct qp *qp, uint32_t right, enum cause *cause);

/*
 * SEND_WITH_INV: ends the bind of the window with this key. VERDICT_REVOKING: the message has to come
 * again, as another thread still copies by the key. *revoked is the responder's, see mw_invalidate_once.
 */
enum verdict execute_invalidate(struct qp *qp, uint32_t rkey, uint32_t *revoked, enum cause *cause);

/*
 * WRITE, after execute_check_right: stores `bytes` in `count` pieces at the start of `range`, which is
 * all that is still to come of the message: so nothing is written if any of it is not allowed.
 */
enum verdict execute_write(struct qp *qp, const struct remote_range *range, const struct iovec *pieces,
			   int count, uint32_t bytes, enum cause *cause);

/* READ, after execute_check_right. The transport reads with memory_read_remote, by the key of PD `pd`. */
enum verdict execute_check_read(const struct qp *qp, const struct remote_range *range, uint32_t pd,
				enum cause *cause);

/*
 * CMP_AND_SWP (first = compare, second = swap) or FETCH_AND_ADD (first = add). On VERDICT_OK *before is
 * what was there, in host order.
 */
enum verdict execute_atomic(struct qp *qp, const struct remote_range *range, bool compare_swap,
			    uint64_t first, uint64_t second, uint64_t *before, enum cause *cause);

/* ATOMIC WRITE: `payload` is its 8 bytes, as they are to lie in memory; else it is invalid. */
enum verdict execute_atomic_write(struct qp *qp, const struct remote_range *range,
				  const void *payload, uint32_t bytes, enum cause *cause);

/* FLUSH (annex A19): placement types and selectivity level exist, and the QP grants them. */
enum verdict execute_check_flush(const struct qp *qp, uint32_t types, uint32_t level,
				 enum cause *cause);
/* After that: what was written before is visible to all. */
enum verdict execute_flush(struct qp *qp, const struct remote_range *range, uint32_t types,
			   uint32_t level, enum cause *cause);

#endif
