/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responder - executes the requests of remote QPs: the checks of PSN, opcode, length and rkey.
 *
 * In:  request packets, in the order of the wire, from anybody who knows the connection's
 * addresses. Out: data in the program's memory, receive completions; acknowledgements, NAKs,
 * responses.
 *
 * A PSN behind the expected one is a duplicate request; one ahead of it is out of sequence, and the
 * responder sends one NAK (PSN sequence error) for the gap.
 *
 * Callers hold the QP's lock. Never waits, and a packet cannot make it fail: what comes ends in a
 * verdict (execute/verdict.h). The checks are those of IBA 9.7.4, in their order. What is owed is
 * sent by responder_flush, responses first, so that nothing acknowledges a READ before it is
 * answered.
 */
#ifndef ROCE_RESPONDER_H
#define ROCE_RESPONDER_H

#include "roce/roce_qp.h"

void responder_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op);

/*
 * Puts what is held of a WRITE into memory. The bytes are there: whoever receives for this QP
 * comes back for its lock before he gives them up.
 */
void responder_settle(struct roce_qp *tq);

/* Sends what is owed, as far as the socket takes it. */
void responder_flush(struct roce_qp *tq);

/* The QP enters RESET or ERR. With ERR a NAK that ended the connection stays. */
void responder_quiesce(struct roce_qp *tq);

/* base/check.h */
void responder_check(const struct roce_qp *tq);

#endif
