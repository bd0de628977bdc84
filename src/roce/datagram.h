/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram - UD packets: one a message, not acknowledged.
 *
 * In:  UD send requests (roce_send_datagram, transport.h); UD packets of anybody.
 * Out: UD packets; receive completions with 40 bytes of GRH.
 */
#ifndef ROCE_DATAGRAM_H
#define ROCE_DATAGRAM_H

#include "packet/packet.h"
#include "udp/wire.h"

/*
 * To the QP that it names; to all QPs of the group if it is a multicast packet. What does not fit is
 * dropped, with a cause if there is a QP. No lock is held.
 */
void datagram_receive(const struct packet *packet, const struct wire_arrival *arrival);

#endif
