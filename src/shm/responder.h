/*
 * Responder - carries out what remote QPs ask of this process's QPs.
 *
 * In:  request records, in the order of the ring.
 * Out: data in the program's memory, receive completions; what is owed for them (answer.h).
 *
 * Callers hold the link's rx_lock and the QP's lock; takes the link's tx_lock. Never waits. A record
 * cannot make it fail: whatever the peer sends ends in a verdict.
 *
 * The checks are those of IBA 9.7.4, in their order. What a request does is in execute/execute.h, what
 * follows from a refusal in execute/verdict.h.
 */
#ifndef SHM_RESPONDER_H
#define SHM_RESPONDER_H

#include "shm/shm_qp.h"

/*
 * `link` is where it came from; `end` the position behind the record. False: an answer that cannot
 * be kept found no room; the record stays where it is, and is tried again.
 */
bool shm_responder_on_request(struct shm_qp *lq, struct link *link, const struct record_header *header,
			  const uint8_t *payload, uint64_t end);

/*
 * The same for a number that no QP of the local path has: there is none, or it has no connection, or one
 * over the wire. No QP's lock may be held.
 */
bool shm_responder_without_qp(struct link *link, const struct record_header *header);

/* The QP enters RESET or ERR: the message in progress ends, nothing is owed any more. */
void shm_responder_stop(struct shm_qp *lq);

#endif
