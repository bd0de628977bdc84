/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GSO batches - whether packets arrive that leave together, cut apart by UDP segmentation (GSO,
 * USO).
 *
 * The ICRC covers the IPv4 identification, which Linux counts up through the packets of a GSO
 * batch. A network adapter that cuts GSO batches itself and does not do so sends packets of which
 * all but the first have a wrong ICRC: Verbatim receives them (packet/icrc.h), adapters and rxe
 * drop them without a word. The sender sees that a GSO batch's first packet arrives, and the second
 * is asked for again, or nothing comes back; each time. After GSO_STRIKES times in a row packets of
 * the flow leave one by one, and so do those of QPs that are connected to the same address later.
 *
 * The requester watches a GSO batch that begins with una_psn: of no other is it known that the
 * packet that was lost was its second one. Any packet that is known to have arrived as a second one
 * begins the count anew, so that mere losses do not add up.
 *
 * Callers hold the QP's lock.
 */
#ifndef ROCE_GSO_H
#define ROCE_GSO_H

#include "roce/roce_env.h"
#include "roce/roce_qp.h"

#define GSO_STRIKES	 8
#define GSO_DESTINATIONS 16 /* that are remembered */

struct burst;

/* The QP has a flow: one that is known to need it sends packets one by one. */
void gso_start(struct roce_qp *tq);

/* May leave as GSO batches, as far as is known. */
static inline bool gso_allowed(const struct roce_qp *tq)
{
	return !tq->flow.one_by_one && roce_env.sends_gso(&tq->flow);
}

/* The burst is about to leave; its first `count` packets are requests. */
void gso_on_requests(struct roce_qp *tq, const struct burst *burst, uint32_t count);

/* una_psn moved on. */
void gso_on_progress(struct roce_qp *tq);

/* una_psn was NAKed, or (`silence`) the RTO passed. */
void gso_on_loss(struct roce_qp *tq, bool silence);

/* The RTO was spurious: the acknowledgement was only late. */
void gso_on_late(struct roce_qp *tq);

/* The same for responses, which nobody acknowledges: a duplicate READ begins at `psn`. */
void gso_on_responses(struct roce_qp *tq, const struct burst *burst, uint32_t count);
void gso_on_repeated_read(struct roce_qp *tq, uint32_t psn);

/* No destination is known any more. No other thread is there. */
void gso_reset_after_fork(void);

#endif
