/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answer - responses to READs and atomics, and NAKs, from a responder to its requester.
 *
 * In:  verdicts of responder.c.
 * Out: records in the link's ring, in the order that the requester relies on: responses before a
 *      NAK.
 *
 * Callers hold the QP's lock; takes the link's tx_lock. The QP keeps answers that find no room in
 * the ring: one NAK and at most max_dest_rd_atomic responses. shm_answer_send sends them. While it
 * keeps a NAK, it acknowledges no later request.
 */
#ifndef SHM_ANSWER_H
#define SHM_ANSWER_H

#include "shm/shm_qp.h"

/*
 * A ring for max_dest_rd_atomic, at RTR or when it changes in SQD. 0 or ENOMEM with a cause:
 * nothing has changed.
 */
int shm_answer_make_room(struct shm_qp *lq);

/* There is room for one more response. */
static inline bool shm_answer_has_room(struct shm_qp *lq)
{
	return lq->response_tail - lq->response_head < lq->response_limit;
}

/* The QP has responses to send. */
static inline bool shm_answer_is_owed(struct shm_qp *lq)
{
	return lq->response_head != lq->response_tail;
}

/* Adds the response to this request, with an atomic's result. False: there is no room. */
bool shm_answer_add(struct shm_qp *lq, const struct record_header *header, uint64_t value);

/*
 * Sends QP `to` at the other end of the link a NAK for the request at this position of the ring.
 * Caller holds rx_lock.
 */
void shm_answer_nak(struct shm_qp *lq, struct link *link, uint32_t to,
		    const struct nak_pending *nak, uint64_t position);

/*
 * Refuses a request that no QP takes: with NAK_SILENCE the requester tries again after its
 * time-out, with NAK_UNREACHABLE it does not. False: there is no room, and nothing is kept, so the
 * caller has to come back to the record. Needs no lock of a QP.
 */
bool shm_answer_refuse(struct link *link, const struct record_header *header, enum nak nak,
		       enum cause cause);

/*
 * Sends the answers that the QP keeps, as far as there is room; false: not all. A READ whose memory
 * is gone fails the QP.
 */
bool shm_answer_send(struct shm_qp *lq);

/* The QP has sent all its answers: takes it off the link's list. */
void shm_answer_is_through(struct shm_qp *lq);

/*
 * The QP leaves its connection and the link's list. The link keeps a NAK that found no room:
 * without it the requester would complete the refused request with success.
 */
void shm_answer_leave(struct shm_qp *lq);

/*
 * Sends NAKs that QPs left with the link. False: not all, for want of room. Caller holds rx_lock.
 */
bool shm_answer_send_orphans(struct link *link);

/* The position from which on nothing may be acknowledged; UINT64_MAX: none. */
uint64_t shm_answer_hold(struct link *link) REQUIRES(link->wait_lock);

/* The QP sends no more answers: the requester's time-out starts, as on a wire. */
void shm_answer_forget(struct shm_qp *lq);

/* base/check.h */
void shm_answer_check(const struct shm_qp *lq);

#endif
