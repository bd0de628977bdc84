/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue - go-back-N: which request of the send queue a PSN belongs to, and in which order
 * requests finish.
 *
 * In:  the PSN that everything is sent anew from; what is acknowledged; requests that fail at this
 * end. Out: sq.issue and next_psn, the place where the requester goes on; completions.
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
	return (uint32_t)packet_psn_diff(tq->next_psn, tq->una_psn);
}

/* The request at sq.issue has been sent up to next_psn: sets wqe.done. */
void sendq_set_done(const struct roce_qp *tq, struct wqe *wqe);

/* Goes back: from `psn` on, which is in flight, everything is sent anew. */
void sendq_go_back(struct roce_qp *tq, uint32_t psn);

/* una_psn passed next_psn: what was sent before the requester went back did arrive. */
void sendq_catch_up(struct roce_qp *tq);

/*
 * The request `seq` (sq.issue is behind it) fails. Its completion comes after those of all earlier
 * requests; then the QP fails. The text is reported with the cause.
 */
void sendq_fail(struct roce_qp *tq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * Completes what is finished, and fails the QP if the next request in order has failed. The QP may
 * be in ERR afterwards.
 */
void sendq_complete(struct roce_qp *tq);

/* base/check.h */
void sendq_check(const struct roce_qp *tq);

#endif
