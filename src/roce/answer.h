/*
 * Answer - what a responder owes: responses, a NAK or an acknowledgement, a congestion notification.
 *
 * In:  what responder.c found out. Out: packets, in the order that a requester relies on.
 *
 * Callers hold the QP's lock. What the socket does not take now is kept, and sent when the QP's
 * timer fires. What is kept is bounded: READs and atomics that were not answered, as many that were
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

/* Nothing is owed but an acknowledgement. */
bool answer_is_ack_only(const struct roce_qp *tq);

/* Makes that packet, which is not owed any more: it is sent by the caller. */
void answer_take_ack(struct roce_qp *tq, struct wire_packet *packet);

/* Another thread acknowledged last: that packet may have not left yet. */
bool answer_may_be_late(const struct roce_qp *tq);

struct burst;

/*
 * Adds it behind the requests in the burst, if nothing else is owed and there is room: it costs
 * little in their GSO batch. True: it is there, and the caller sets tq->ack_owed again if it does not
 * leave. False: nothing is owed, or it stays so, or was sent ahead.
 *
 * A program that sleeps for events (its CQ has a channel) may be answering with these requests what
 * another thread took, told it of, and acknowledges by a packet of its own. That packet may be late:
 * the thread may get no processor before it sends it, or each processor of the host has a queue of its
 * own that packets wait in. So it is said once more, where nothing can come between. And if it would
 * not be in the GSO batch of all messages that end in the burst, it is sent ahead of them.
 */
bool answer_join(struct roce_qp *tq, struct burst *burst);

/* Sends what is owed. A READ whose memory is not accessible any more may fail the QP. */
void answer_send(struct qp *qp);

#endif
