/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage - which senders' packets all have a wrong ICRC.
 *
 * In:  the source of each packet that came to a port, and whether its ICRC was right.
 * Out: a cause, if all packets of a source have a wrong one: that is no noise on a cable, which
 *      UDP's checksum would have found, but a router that changes what the ICRC covers: addresses
 *      (NAT) or ports.
 *
 * Guarded by the port's receive lock.
 */
#ifndef UDP_DAMAGE_H
#define UDP_DAMAGE_H

#include "udp/wire.h"

/* with no correct packet between; a QP sends few that are not acknowledged */
#define DAMAGE_IN_A_ROW 4

struct damage {
	uint8_t remote[WIRE_GID_BYTES]; /* sender of the last one */
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
