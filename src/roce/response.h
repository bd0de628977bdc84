/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Response - what a responder owes: responses, and one NAK or coalesced acknowledgement.
 *
 * In:  what responder.c found out. Out: packets in a burst, in the order that a requester relies
 * on; transmit.c sends it.
 *
 * Callers hold the QP's lock. What the socket does not take stays owed until the QP's timer fires.
 * It is bounded, as the responder resources of an adapter are: LIMIT_QP_RD_ATOM READs and atomics,
 * as many duplicates of them, one NAK, one acknowledgement for all requests before it.
 */
#ifndef ROCE_RESPONSE_H
#define ROCE_RESPONSE_H

#include "roce/roce_qp.h"

/* There is room: the caller counts (max_dest_rd_atomic). */
void response_add_read(struct responses *responses, const struct roce_qp *tq,
		       const struct packet *request, uint32_t pd, uint32_t msn);
void response_add_atomic(struct responses *responses, const struct saved_atomic *saved,
			 uint32_t msn);
/* Of an ATOMIC WRITE or a FLUSH: as if it had been a READ of nothing (annex A19). */
void response_add_empty(struct responses *responses, uint32_t psn, uint32_t msn);

/* The same for a duplicate request. Nothing happens if its response is still owed. */
void response_repeat_read(struct roce_qp *tq, const struct packet *request, uint32_t pd);
void response_repeat_empty(struct roce_qp *tq, uint32_t psn);
void response_repeat_atomic(struct roce_qp *tq, uint32_t psn);

/* A NAK acknowledges everything before it, too. One that ended the connection stays. */
void response_nak(struct roce_qp *tq, const struct nak *nak);

/* There is room for one more response, whatever max_dest_rd_atomic says. */
bool response_has_room(const struct roce_qp *tq);

/* Something is owed that no acknowledgement says. */
bool response_owes_more(const struct roce_qp *tq);
bool response_is_owed(const struct roce_qp *tq);

/* Nothing is owed but an acknowledgement. */
bool response_is_ack_only(const struct roce_qp *tq);

/* Makes the packet of the acknowledgement, which is not owed any more: the caller sends it. */
void response_take_ack(struct roce_qp *tq, struct wire_packet *packet);

struct burst;

/*
 * Fills the burst with responses, as far as it has room; *turn packets at most, which goes down.
 * The responses count as sent, but for response_restore. A cause: the memory of the next READ is
 * not accessible.
 */
enum cause response_fill(struct roce_qp *tq, struct burst *burst, uint32_t *turn);

/* Adds the NAK that is owed, or else an acknowledgement, to the burst, which has room. */
void response_fill_ack(const struct roce_qp *tq, struct burst *burst);

/* The responses owed before a burst was filled, for when the socket does not take all of it. */
struct response_state {
	struct responses responses, replays;
};

void response_save(const struct roce_qp *tq, struct response_state *state);

/*
 * Only the first `left` packets of the burst left. These must not stay owed: their requester may
 * ask for more as soon as it has them, and would find no place (has_resources).
 */
void response_restore(struct roce_qp *tq, const struct response_state *state, unsigned left);

/* The memory of the next READ is not accessible any more: a NAK is owed, and the QP fails. */
void response_fail_read(struct roce_qp *tq, enum cause cause);

/* base/check.h */
void response_check(const struct roce_qp *tq);

#endif
