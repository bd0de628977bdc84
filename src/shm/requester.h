/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester - carries out posted send requests, as records or on the peer's memory.
 *
 * In:  the QP's send queue, from sq.issue on.
 * Out: records in the link's ring, memory of the peer (onesided.h), or finished WQEs.
 *
 * Callers hold the QP's lock: the posting thread, or one that makes progress. Takes the link's tx_lock.
 * Never waits: a request that finds no room, or whose QP has had its turn, stays in the queue, and
 * shm_requester_issue is called again when that changes. One call does a bounded amount.
 */
#ifndef SHM_REQUESTER_H
#define SHM_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/shm_qp.h"

/* One call of shm_requester_issue moves at most so many bytes, then other QPs have a turn. */
#define REQUESTER_TURN_BYTES (1024 * 1024)

enum carried {
	CARRIED,	/* WQE_ISSUED or WQE_DONE: on to the next */
	CARRY_NO_ROOM,	/* the ring is full */
	CARRY_WAIT,	/* for acknowledgements or responses of earlier requests, or a timer */
	CARRY_TURN_OVER,
	CARRY_FAILED,	/* shm_requester_fail was called */
};

/* READs and atomics: what is answered by data and limited by max_rd_atomic. */
static inline bool wqe_is_read(const struct wqe *wqe)
{
	return operation_brings_data(opcode_operation(wqe->opcode));
}

/* Returns how it ended; CARRIED: nothing is left. */
enum carried shm_requester_issue(struct shm_qp *lq);

/*
 * The request `seq` (sq.issue is behind it) failed. Its completion comes after those of all earlier
 * ones; then the QP fails. The text is reported with the cause.
 */
void shm_requester_fail(struct shm_qp *lq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		    const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Makes completions, and the failure that waited for them; then issues what may go now. */
void shm_requester_on_progress(struct shm_qp *lq);

/*
 * The QP waits in a list of the link: for room in its ring, or for another turn. Progress on the link
 * serves the lists; shm_requester_unblock takes the QP out of the one that it is in, if any.
 */
void shm_requester_block(struct shm_qp *lq, struct link *link);
void shm_requester_end_turn(struct shm_qp *lq, struct link *link);
void shm_requester_unblock(struct shm_qp *lq);

#endif
