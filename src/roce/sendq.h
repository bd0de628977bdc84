/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue - go-back-N: maps PSNs to requests of the send queue, and completes requests in order.
 *
 * In:  the PSN to go back to; acknowledgements; requests that fail at this end.
 * Out: sq.issue and next_psn, where the requester continues; completions.
 *
 * Callers hold the QP's lock. Never waits, sends nothing: the requester does, with its next turn.
 */
#ifndef ROCE_SENDQ_H
#define ROCE_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

#include "roce/roce_qp.h"

/* How many PSNs are in flight: sent, and not acknowledged. */
static inline uint32_t sendq_in_flight(const struct roce_qp *tq)
{
	return (uint32_t)psn_diff(tq->next_psn, tq->una_psn);
}

/* The WQE with this PSN, which is in flight; NULL: it has none any more. */
struct wqe *sendq_find(const struct roce_qp *tq, psn_t psn);

/* The request at sq.issue has been sent up to next_psn: sets wqe.done. */
void sendq_set_done(const struct roce_qp *tq, struct wqe *wqe);

/* Goes back: everything from `psn` on, which is in flight, is sent again. */
void sendq_go_back(struct roce_qp *tq, psn_t psn);

/*
 * A ring for max_rd_atomic, at RTS or when it changes in SQD. 0 or ENOMEM with a cause: that which
 * is there stays.
 */
int sendq_make_room(struct roce_qp *tq);

/* una_psn has passed next_psn: packets from before the requester went back did arrive. */
void sendq_catch_up(struct roce_qp *tq);

/*
 * Going back was in vain: what is before `psn` need not be sent again. Ends before a request that
 * takes a response, which has to be sent again to be outstanding.
 */
void sendq_resume(struct roce_qp *tq, psn_t psn);

/*
 * The request `seq` fails; sq.issue is past it. Its completion comes after those of all earlier
 * requests; then the QP fails. The text is reported with the cause.
 */
void sendq_fail(struct roce_qp *tq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * Completes finished requests, and fails the QP if the next one has failed. The QP may be in ERR
 * afterwards.
 */
void sendq_complete(struct roce_qp *tq);

/* base/check.h */
void sendq_check(const struct roce_qp *tq);

#endif
