/*
 * Responder - carries out what remote QPs ask of this process's QPs.
 *
 * In:  request records, in the order of the ring.
 * Out: data in the program's memory, receive completions; responses and NAKs in the link's ring.
 *
 * Callers hold the link's rx_lock and the QP's lock; takes the link's tx_lock. Never waits: answers
 * that find no room are kept in the QP (a NAK and at most 16 responses) and sent by
 * local_responder_answer; a NAK that is kept also holds the acknowledgements back behind it. A record
 * cannot make it fail: whatever the peer sends ends in a verdict.
 *
 * The checks are those of IBA 9.7.4, in their order; what a verdict entails is in the table
 * `reactions`.
 */
#ifndef LOCAL_RESPONDER_H
#define LOCAL_RESPONDER_H

#include "local/local_qp.h"

/*
 * `link` is where it came from; `end` the position behind the record. False: an answer that cannot
 * be kept found no room; the record stays where it is, and is tried again.
 */
bool local_responder_on_request(struct qp *qp, struct link *link, const struct record_header *header,
			  const uint8_t *payload, uint64_t end);

/* The same for a QP that does not exist. Returns false if the answer found no room. */
bool local_responder_refuse(struct link *link, const struct record_header *header);

/* Sends what is owed, responses and NAK in order, as far as there is room. */
void local_responder_answer(struct qp *qp);

/* The QP enters RESET or ERR: the message in progress ends, nothing is owed any more. */
void local_responder_stop(struct qp *qp);

/* Completes the receive (object/receive.h). `length` and header are of the message. */
void local_responder_complete_receive(struct qp *qp, const struct record_header *header,
				enum ibv_wc_opcode opcode, enum ibv_wc_status status,
				enum cause cause, uint32_t length, uint32_t wc_flags);

#endif
