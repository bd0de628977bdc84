/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requester - executes posted send requests, by records or on the peer's memory.
 *
 * In:  the QP's send queue, from sq.issue on.
 * Out: records in the link's ring, memory of the peer (onesided.h), or finished WQEs.
 *
 * Callers hold the QP's lock: the posting thread, or a thread that makes progress. Takes the link's
 * tx_lock. Never waits: a request that finds no room, or whose QP has had its turn, stays in the
 * queue, and shm_requester_issue is called again when that changes. One call does a bounded amount
 * of work.
 */
#ifndef SHM_REQUESTER_H
#define SHM_REQUESTER_H

#include "shm/sendq.h"

/* One call of shm_requester_issue moves at most so many bytes, then other QPs have a turn. */
#define REQUESTER_TURN_BYTES (1024 * 1024)

/* ISSUE_DONE: no request is left. */
enum issue_result shm_requester_issue(struct shm_qp *lq);

/* Makes completions, and the failure that waited for them; then issues requests. */
void shm_requester_on_progress(struct shm_qp *lq);

#endif
