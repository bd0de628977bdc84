/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram - UD packets: one a message, not acknowledged.
 *
 * In:  UD send requests (datagram_transmit); UD packets of any host.
 * Out: UD packets; receive completions with 40 bytes of GRH.
 */
#ifndef ROCE_DATAGRAM_H
#define ROCE_DATAGRAM_H

#include "base/cause.h"
#include "object/qp.h"
#include "packet/packet.h"
#include "udp/wire.h"

/*
 * Delivers a packet to its QP, or a multicast packet to all QPs of the group. Drops a packet that
 * does not fit, with a cause if there is a QP. No lock is held.
 */
void datagram_receive(const struct packet *packet, const struct wire_arrival *arrival);

/* A CNP came for a UD QP, whose lock is held: a receiver of its datagrams is slower. */
void datagram_on_notification(struct qp *qp);

/*
 * Sends the datagram `seq` of a UD QP, whose lock is held, or up to `most` from there on: as many
 * as follow it to the same address handle and process, in one call, as GSO batches where their
 * lengths are equal. Multicast too. WIRE_SENT: *sent of them, at least one, were sent, or this host
 * has dropped them. Else none was, because of the first: WIRE_FULL, WIRE_NO_PORT: try again later;
 * WIRE_FAULT: *cause is set (L_Key, memory, too long).
 */
enum wire_result datagram_transmit(struct qp *qp, uint32_t seq, unsigned most, unsigned *sent,
				   enum cause *cause);

#endif
