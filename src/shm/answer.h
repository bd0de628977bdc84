/*
 * Answer - what a responder owes: responses to READs and atomics, a NAK.
 *
 * In:  what responder.c found out. Out: records in the link's ring, in the order that a requester
 * relies on: a NAK behind the responses.
 *
 * Callers hold the QP's lock; takes the link's tx_lock. What finds no room is kept in the QP, a NAK and at
 * most RESPONSES_MAX responses, and sent by shm_answer_send; a NAK that is kept also holds the
 * acknowledgements back behind it.
 */
#ifndef SHM_ANSWER_H
#define SHM_ANSWER_H

#include "shm/shm_qp.h"

/* For one more response; there are some. */
static inline bool shm_answer_has_room(struct shm_qp *lq)
{
	return lq->response_tail - lq->response_head < RESPONSES_MAX;
}

static inline bool shm_answer_is_owed(struct shm_qp *lq)
{
	return lq->response_head != lq->response_tail;
}

/* The response to this request, with an atomic's result. False: there is no room. */
bool shm_answer_add(struct shm_qp *lq, const struct record_header *header, uint64_t value);

/* A NAK to QP `to` at the other end of the link, of the request at nak->position. */
void shm_answer_nak(struct shm_qp *lq, struct link *link, uint32_t to, const struct nak_pending *nak);

/*
 * What no QP takes is answered as by nobody (NAK_SILENCE), or, if it can never be taken, so that the
 * requester need not try again (NAK_UNREACHABLE). False: there is no room for that, and nothing is
 * kept: the record has to be looked at again. Without lock of a QP, too.
 */
bool shm_answer_refuse(struct link *link, const struct record_header *header, enum nak nak,
			 enum cause cause);

/*
 * Sends what is owed, as far as there is room; false: not all of it. A READ whose memory is gone fails
 * the QP.
 */
bool shm_answer_send(struct shm_qp *lq);

/* Everything that the QP owed was sent: it is off the link's list. */
void shm_answer_is_through(struct shm_qp *lq);

/*
 * The QP leaves its connection: it is off the link's list, and a NAK that found no room stays behind with
 * the link. Without it the request that was refused would count as carried out.
 */
void shm_answer_leave(struct shm_qp *lq);

/* Sends what QPs left behind; false: not all of it, for want of room. Caller holds rx_lock. */
bool shm_answer_send_orphans(struct link *link);

/* Nobody will answer what is owed: the requester's time-out starts, as on a wire. */
void shm_answer_forget(struct shm_qp *lq);

#endif
