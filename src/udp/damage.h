/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage - detects senders whose packets all have a wrong ICRC.
 *
 * In:  the source of each packet of a port, and whether its ICRC was correct.
 * Out: a cause, if all packets of a source have a wrong one. Noise on a cable would fail UDP's
 *      checksum; so a router changes fields that the ICRC covers: addresses (NAT) or ports.
 *
 * Guarded by the port's receive lock.
 */
#ifndef UDP_DAMAGE_H
#define UDP_DAMAGE_H

#include "udp/wire.h"

/* without a correct packet between; small, as a QP sends few unacknowledged packets */
#define DAMAGE_IN_A_ROW 4

struct damage {
	uint8_t remote[WIRE_GID_BYTES]; /* sender of the last damaged packet */
	uint32_t in_a_row;
};

void damage_on_wrong(struct damage *damage, const struct wire_flow *flow);

/* damage_on_right, after packets of any sender were damaged. */
void damage_forget(struct damage *damage, const struct wire_flow *flow);

static inline void damage_on_right(struct damage *damage, const struct wire_flow *flow)
{
	if (damage->in_a_row)
		damage_forget(damage, flow);
}

#endif
