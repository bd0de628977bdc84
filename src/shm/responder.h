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
 *
 * The receives of a SEND and of small SENDs right behind it are coalesced: one acknowledgement
 * (IBA 9.7.5.1.2) and one push for up to COALESCED_MAX of them (struct coalesced, in shm/link.h).
 * The other end loads `acked` all the time while its send queue is full. So a store to it has to
 * fetch the cache line first, and the next locked instruction waits for that. They are of one QP,
 * which the turn (shm/progress.c) does not unlock before it has called shm_responder_flush. Nothing
 * that the program or the other end could see happens before these completions: they are flushed
 * before any other record, a refusal, an answer, a release of room, acknowledgements of the other
 * end and a copy that may wait (memory_may_wait), and when there are no more records.
 */
#ifndef SHM_RESPONDER_H
#define SHM_RESPONDER_H

#include "shm/shm_qp.h"

/* A longer copy takes more time than the program should wait for earlier completions. */
#define COALESCED_RECORD_BYTES 1024

/* The completions so far may wait for this record. One of XRC may change the QP's CQ. */
static inline bool shm_responder_coalesces(const struct record_header *header)
{
	return record_kind(header) == OPERATION_SEND &&
	       !(record_flags(header) & (RECORD_INV | RECORD_BY_KEY | RECORD_XRC)) &&
	       record_size(header) <= COALESCED_RECORD_BYTES;
}

/* Acknowledges, then pushes what was coalesced. The caller holds the link's rx_lock. */
void shm_responder_flush_all(struct link *link);

static inline void shm_responder_flush(struct link *link)
{
	if (link->coalesced.count)
		shm_responder_flush_all(link);
}

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
