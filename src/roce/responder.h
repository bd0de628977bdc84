/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder - executes the requests of remote QPs: the checks of PSN, opcode, length and rkey.
 *
 * In:  request packets, in the order of the wire, from any host that knows the connection's
 *      addresses.
 * Out: data in the program's memory, receive completions; acknowledgements, NAKs, responses.
 *
 * A packet with a PSN before the expected one is a duplicate. A packet with a later PSN is out of
 * sequence, and the responder sends one NAK (PSN sequence error) for the gap.
 *
 * Callers hold the QP's lock. Never waits, and a packet cannot make it fail: each ends in a verdict
 * (execute/verdict.h). The checks are those of IBA 9.7.4, in their order. responder_flush sends
 * what the responder owes: responses first, so that nothing acknowledges a READ before its
 * response.
 */
#ifndef ROCE_RESPONDER_H
#define ROCE_RESPONDER_H

#include "roce/roce_qp.h"

void responder_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op);

/*
 * Copies held packets of a WRITE to memory. Their bytes are still in the receive buffer: the thread
 * that received them takes the QP's lock before it reuses the buffer.
 */
void responder_write_held(struct roce_qp *tq);

/* Sends owed packets, as far as the socket takes them. */
void responder_flush(struct roce_qp *tq);

/* The QP enters RESET or ERR. With ERR a NAK that ended the connection stays. */
void responder_quiesce(struct roce_qp *tq);

/* base/check.h */
void responder_check(const struct roce_qp *tq);

#endif
