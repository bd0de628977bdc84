/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue - the progress of a QP's requests on this path: how they complete, and go back.
 *
 * In:  requests that were sent, executed, refused, or failed at this end.
 * Out: sq.issue and next_msn, where the requester continues; counts of outstanding messages;
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
enum issue_result {
	ISSUE_DONE,    /* WQE_ISSUED or WQE_DONE: on to the next */
	ISSUE_NO_ROOM, /* the ring is full */
	ISSUE_WAIT,    /* for acknowledgements or responses of earlier requests, or a timer */
	ISSUE_TURN_OVER,
	ISSUE_FAILED, /* shm_sendq_fail was called */
};

/* READs and atomics: answered by data, and limited by max_rd_atomic. */
static inline bool wqe_is_read(const struct wqe *wqe)
{
	return operation_brings_data(opcode_operation(wqe->opcode));
}

static inline bool wqe_is_on_the_way(const struct wqe *wqe)
{
	return wqe->state == WQE_ISSUED && !wqe_has_failed(wqe);
}

/* The last record of an answered message was sent. */
static inline void shm_sendq_on_sent(struct shm_qp *lq, struct wqe *wqe)
{
	wqe->state = WQE_ISSUED;
	lq->next_msn = msn_next(lq->next_msn);
	lq->unacked++;
	lq->reads += wqe_is_read(wqe);
	lq->queued += wqe->route == ROUTE_QUEUED;
}

/* The message is no longer outstanding. */
static inline void shm_sendq_uncount(struct shm_qp *lq, const struct wqe *wqe)
{
	lq->unacked--;
	lq->reads -= wqe_is_read(wqe);
	lq->queued -= wqe->route == ROUTE_QUEUED;
}

/* An outstanding message was executed. shm_sendq_complete completes it. */
static inline void shm_sendq_finish(struct shm_qp *lq, struct wqe *wqe)
{
	wqe_finish(wqe, IBV_WC_SUCCESS, CAUSE_NONE);
	shm_sendq_uncount(lq, wqe);
}

/*
 * Goes back (IBA 9.7.5.1.2, go-back-N): all requests from `seq` on are sent again, since the
 * responder has dropped them.
 */
void shm_sendq_go_back(struct shm_qp *lq, uint32_t seq);

/*
 * The request `seq` failed; sq.issue is past it. Its completion comes after those of all earlier
 * ones; then the QP fails. The text is reported with the cause.
 */
void shm_sendq_fail(struct shm_qp *lq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Makes completions, and the failure that waited for them. False: the QP has failed. */
bool shm_sendq_complete(struct shm_qp *lq);

/* base/check.h */
void shm_sendq_check(const struct shm_qp *lq);

#endif
