/*
 * Answer - what a responder owes: responses, a NAK or an acknowledgement, a congestion notification.
 *
 * In:  what responder.c found out. Out: packets in a burst, in the order that a requester relies on;
 * transmit.c sends it.
 *
 * Callers hold the QP's lock. What the socket does not take is kept until the QP's timer fires. What is kept is bounded: READs and atomics that were not answered, as many that were
 * asked for again, one NAK, one acknowledgement for all requests before it.
 */
#ifndef ROCE_ANSWER_H
#define ROCE_ANSWER_H

#include "roce/roce_qp.h"

/* There is room: the caller counts (max_dest_rd_atomic). */
void answer_add_read(struct responses *responses, const struct roce_qp *tq,
		     const struct packet *request, uint32_t pd, uint32_t msn);
void answer_add_atomic(struct responses *responses, const struct saved_atomic *saved, uint32_t msn);
/* Of an ATOMIC WRITE or a FLUSH: as if it had been a READ of nothing (annex A19). */
void answer_add_empty(struct responses *responses, uint32_t psn, uint32_t msn);

/* The same for a request that was carried out before; nothing happens if it will be answered yet. */
void answer_repeat_read(struct roce_qp *tq, const struct packet *request, uint32_t pd);
void answer_repeat_empty(struct roce_qp *tq, uint32_t psn);
void answer_repeat_atomic(struct roce_qp *tq, uint32_t psn);

/* A NAK acknowledges everything before it, too. One that ended the connection stays. */
void answer_nak(struct roce_qp *tq, const struct nak *nak);

/* For one more response, whatever was agreed on. */
bool answer_has_room(const struct roce_qp *tq);

/* Something is owed that no acknowledgement says. */
bool answer_owes_more(const struct roce_qp *tq);
bool answer_owes_responses(const struct roce_qp *tq);

/* Nothing is owed but an acknowledgement. */
bool answer_is_ack_only(const struct roce_qp *tq);

/* Makes the packet of the acknowledgement, which is not owed any more: the caller sends it. */
void answer_take_ack(struct roce_qp *tq, struct wire_packet *packet);

struct burst;

/*
 * Fills the burst with responses, as far as it has room; *turn packets at most, which goes down. The
 * responses count as sent, but for answer_restore. A cause: the memory of the next READ is not accessible.
 */
enum cause answer_fill_responses(struct roce_qp *tq, struct burst *burst, uint32_t *turn);

/* Adds the NAK that is owed, or else an acknowledgement, to the burst, which has room. */
void answer_fill_ack(const struct roce_qp *tq, struct burst *burst);

/* The responses owed before a burst was filled, for when the socket does not take all of it. */
struct answer_state {
	struct responses responses, replays;
};

void answer_save(const struct roce_qp *tq, struct answer_state *state);

/*
 * Only the first `left` packets of the burst left. These must not stay owed: their requester may ask for
 * more as soon as it has them, and would find no place (has_resources).
 */
void answer_restore(struct roce_qp *tq, const struct answer_state *state, unsigned left);

/* The memory of the next READ is not accessible any more: a NAK is owed, and the QP fails. */
void answer_fail_read(struct roce_qp *tq, enum cause cause);

#endif
