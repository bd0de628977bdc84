/*
 * Completer - what comes back to a requester: acknowledgements, NAKs, responses.
 *
 * In:  answer packets, in the order of the wire, from anybody who knows the connection's addresses.
 * Out: finished WQEs, data of READs and atomics; or news for retransmit.c.
 *
 * Callers hold the QP's lock. An answer that does not belong to anything on the way is ignored
 * (IBA 9.7.5.1.3, ghost acknowledgements).
 */
#ifndef ROCE_COMPLETER_H
#define ROCE_COMPLETER_H

#include "roce/roce_qp.h"

void completer_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op);

/* UC: requests that have left are complete. */
void completer_on_sent(struct roce_qp *tq);

#endif
