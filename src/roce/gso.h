/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GSO batches - detects destinations that drop all but the first packet of a GSO batch.
 *
 * The ICRC covers the IPv4 identification, which Linux increments through the packets of a GSO
 * batch. Some network adapters segment GSO batches themselves (USO) without that increment. Then
 * all packets but the first have a wrong ICRC: Verbatim receives them (packet/icrc.h), adapters and
 * rxe drop them silently. The sender sees that a GSO batch's first packet arrives, and its second
 * gets a NAK, or no answer; each time. After GSO_STRIKES times in a row the packets of the flow are
 * sent one by one, and so are those of later QPs with the same destination.
 *
 * The requester watches a GSO batch that begins with una_psn: only there it knows that the lost
 * packet was the second one. The arrival of any second packet resets the count, so that ordinary
 * losses do not add up.
 *
 * Callers hold the QP's lock.
 */
#ifndef ROCE_GSO_H
#define ROCE_GSO_H

#include "roce/roce_env.h"
#include "roce/roce_qp.h"

#define GSO_STRIKES	 8
#define GSO_DESTINATIONS 16 /* remembered addresses */

struct burst;

/* The QP has a flow: if its destination is remembered, it sends packets one by one. */
void gso_start(struct roce_qp *tq);

/*
 * The same for a flow of datagrams, which nothing acknowledges: only connections find out which
 * destinations need it.
 */
void gso_start_flow(struct wire_flow *flow);

/* The QP's packets may be sent as GSO batches. */
static inline bool gso_allowed(const struct roce_qp *tq)
{
	return !tq->flow.one_by_one && roce_env.sends_gso(&tq->flow);
}

/* The burst is about to leave; its first `count` packets are requests. */
void gso_on_requests(struct roce_qp *tq, const struct burst *burst, uint32_t count);

/* una_psn has advanced. */
void gso_on_progress(struct roce_qp *tq);

/* una_psn was NAKed, or (`silence`) the RTO passed. */
void gso_on_loss(struct roce_qp *tq, bool silence);

/* The RTO was spurious: the acknowledgement was only late. */
void gso_on_late(struct roce_qp *tq);

/* The same for responses, which are not acknowledged: a duplicate READ begins at `psn`. */
void gso_on_responses(struct roce_qp *tq, const struct burst *burst, uint32_t count);
void gso_on_repeated_read(struct roce_qp *tq, psn_t psn);

/* Forgets all destinations. In the child of a fork. */
void gso_reset_after_fork(void);

#endif
