/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder - executes requests of remote QPs.
 *
 * In:  request records, in the order of the ring.
 * Out: data in the program's memory, receive completions, answers (answer.h).
 *
 * Callers hold the link's rx_lock and the QP's lock; takes the link's tx_lock. Never waits. A
 * record cannot make it fail: whatever the peer sends ends in a verdict.
 *
 * The checks are those of IBA 9.7.4, in their order. execute/execute.h executes a request,
 * execute/verdict.h has the reactions to a refusal.
 */
#ifndef SHM_RESPONDER_H
#define SHM_RESPONDER_H

#include "shm/shm_qp.h"

/*
 * `link`: of the record; `end`: the position after it. False: an answer that cannot be kept found
 * no room; the caller tries the record again.
 */
bool shm_responder_on_request(struct shm_qp *lq, struct link *link,
			      const struct record_header *header, const uint8_t *payload,
			      uint64_t end);

/*
 * The same if no QP of this path has the QP number: the QP does not exist, is not connected, or is
 * connected to another host. No QP's lock may be held.
 */
bool shm_responder_without_qp(struct link *link, const struct record_header *header);

/* The QP enters RESET or ERR: ends the message in progress, and drops the answers that are kept. */
void shm_responder_stop(struct shm_qp *lq);

#endif
