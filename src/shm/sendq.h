/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue - how far the requests of a QP are on this path, and how they end or begin anew.
 *
 * In:  requests that were sent, carried out, refused, or failed at this end.
 * Out: sq.issue and next_msn, where the requester goes on; counts of what is on the way;
 *      completions.
 *
 * Callers hold the QP's lock. Never waits, sends nothing: the requester does, with its next turn.
 */
#ifndef SHM_SENDQ_H
#define SHM_SENDQ_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/* How the requester's turn at a request ended. */
enum carried {
	CARRIED,       /* WQE_ISSUED or WQE_DONE: on to the next */
	CARRY_NO_ROOM, /* the ring is full */
	CARRY_WAIT,    /* for acknowledgements or responses of earlier requests, or a timer */
	CARRY_TURN_OVER,
	CARRY_FAILED, /* shm_sendq_fail was called */
};

/* READs and atomics: what is answered by data and limited by max_rd_atomic. */
static inline bool wqe_is_read(const struct wqe *wqe)
{
	return operation_brings_data(opcode_operation(wqe->opcode));
}

static inline bool wqe_is_on_the_way(const struct wqe *wqe)
{
	return wqe->state == WQE_ISSUED && !wqe_has_failed(wqe);
}

/* The last record of a message that is answered has left. */
static inline void shm_sendq_on_sent(struct shm_qp *lq, struct wqe *wqe)
{
	wqe->state = WQE_ISSUED;
	lq->next_msn = msn_next(lq->next_msn);
	lq->unacked++;
	lq->reads += wqe_is_read(wqe);
}

/* It is not on the way any more. */
static inline void shm_sendq_uncount(struct shm_qp *lq, const struct wqe *wqe)
{
	lq->unacked--;
	lq->reads -= wqe_is_read(wqe);
}

/* A message on the way was carried out. shm_sendq_complete makes it known. */
static inline void shm_sendq_finish(struct shm_qp *lq, struct wqe *wqe)
{
	wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	shm_sendq_uncount(lq, wqe);
}

/*
 * Goes back: all requests from `seq` on are sent anew, since the responder has dropped what came
 * behind it (IBA 9.7.5.1.2, go-back-N).
 */
void shm_sendq_go_back(struct shm_qp *lq, uint32_t seq);

/*
 * The request `seq` (sq.issue is behind it) failed. Its completion comes after those of all earlier
 * ones; then the QP fails. The text is reported with the cause.
 */
void shm_sendq_fail(struct shm_qp *lq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Makes completions, and the failure that waited for them. False: the QP has failed. */
bool shm_sendq_complete(struct shm_qp *lq);

/* base/check.h */
void shm_sendq_check(const struct shm_qp *lq);

#endif
