/*
 * Trains - whether packets arrive that leave together, cut apart by UDP segmentation (GSO, USO).
 *
 * The ICRC covers the IPv4 identification, which Linux counts up through the packets of a train. A network
 * adapter that cuts trains itself and does not do so sends packets of which all but the first have a
 * wrong ICRC: Verbatim receives them (packet/icrc.h), adapters and rxe drop them without a word. The
 * sender sees that a train's first packet arrives, and the second is asked for again, or nothing comes
 * back; each time. After TRAINS_STRIKES times in a row packets of the flow leave one by one, and so do
 * those of QPs that are connected to the same address later.
 *
 * A train is watched that begins with the oldest packet not answered: of no other is it known that what
 * was lost was its second packet. Any packet that is known to have arrived as a second one begins the
 * count anew, so that mere losses do not add up.
 *
 * Callers hold the QP's lock.
 */
#ifndef ROCE_TRAINS_H
#define ROCE_TRAINS_H

#include "roce/roce_qp.h"

#define TRAINS_STRIKES	    8
#define TRAINS_DESTINATIONS 16 /* that are remembered */

struct burst;

/* The QP has a flow: one that is known to need it sends packets one by one. */
void trains_start(struct roce_qp *tq);

/* May leave as trains, as far as is known. */
static inline bool trains_leave(const struct roce_qp *tq)
{
	return !tq->flow.one_by_one && roce_env.sends_trains(&tq->flow);
}

/* The burst is about to leave; its first `count` packets are requests. */
void trains_on_requests(struct roce_qp *tq, const struct burst *burst, uint32_t count);

/* una_psn moved on. */
void trains_on_progress(struct roce_qp *tq);

/* una_psn is asked for again, or (`silence`) nothing came in time. */
void trains_on_loss(struct roce_qp *tq, bool silence);

/* Nothing was lost: it was only late. */
void trains_on_late(struct roce_qp *tq);

/* The same of responses, which nobody acknowledges: a READ is asked for again from `psn` on. */
void trains_on_responses(struct roce_qp *tq, const struct burst *burst, uint32_t count);
void trains_on_repeated_read(struct roce_qp *tq, uint32_t psn);

/* No destination is known any more. No other thread is there. */
void trains_reset_after_fork(void);

#endif
