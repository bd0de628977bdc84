/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completer - handles acknowledgements, NAKs and responses for a requester.
 *
 * In:  acknowledge and response packets, in the order of the wire, from any host that knows the
 *      connection's addresses.
 * Out: finished WQEs, data of READs and atomics; NAKs and gaps, to retransmit.c.
 *
 * Acknowledgements are coalesced: each finishes all requests up to its PSN. A packet whose PSN is
 * not in flight is ignored (IBA 9.7.5.1.3, ghost acknowledgements). Callers hold the QP's lock.
 */
#ifndef ROCE_COMPLETER_H
#define ROCE_COMPLETER_H

#include "roce/roce_qp.h"

void completer_on_packet(struct roce_qp *tq, const struct packet *packet,
			 const struct packet_opcode *op);

/* UC: sent requests are complete. */
void completer_on_sent(struct roce_qp *tq);

#endif
