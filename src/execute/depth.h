/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Depth - how many READs and atomics a QP has on the way (max_rd_atomic), or owes the responses to
 * (max_dest_rd_atomic), and rings for so many.
 *
 * A ring is as long as ibv_modify_qp asks for, so that a QP without READs pays for none: a path
 * makes it at RTR or in qp_path.set_depths; iWARP, when the connection is made. So no request
 * allocates, and where memory is short ibv_modify_qp or rdma_cm says so. A ring grows and never
 * shrinks: in SQD its entries are of requests under way, which stay, and after RESET an empty ring
 * that is too long does no harm. It is freed with the path's state of the QP.
 *
 * Owner: who holds qp->lock. ibv_modify_qp holds it while it replaces a ring; threads that post,
 * that poll, and the progress thread hold it while they look at one, and keep no pointer into it
 * when they release the lock.
 */
#ifndef EXECUTE_DEPTH_H
#define EXECUTE_DEPTH_H

#include <stddef.h>
#include <stdint.h>

/* As the attribute counts: 0 is 1. */
static inline uint32_t depth_of(uint8_t attribute)
{
	return attribute ? attribute : 1;
}

/*
 * Entry i of a ring is at slot i & (slots - 1), and `slots` is a power of 2: head and tail count in
 * 32 bits, and wrap.
 */
struct depth_ring {
	const void *entries; /* NULL with no slots */
	uint32_t slots, head, tail;
	size_t entry_bytes;
};

/* So many slots for `depth` entries. */
uint32_t depth_slots(uint32_t depth);

/*
 * A ring of zeroes with `slots` for entries, and at their slots those of the old one, which is
 * shorter and is the caller's to free. NULL: no memory, with a cause.
 */
void *depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn);

#endif
