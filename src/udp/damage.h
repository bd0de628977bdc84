/*
 * Damage - what packets with a wrong ICRC have in common.
 *
 * In:  the source of each packet that came to a port, and whether its ICRC was right.
 * Out: a cause, if all packets of a source have a wrong one: that is no noise on a cable, which UDP's
 *      checksum would have found, but a router that changes what the ICRC covers: addresses (NAT) or ports.
 *
 * Guarded by the port's receive lock.
 */
#ifndef UDP_DAMAGE_H
#define UDP_DAMAGE_H

#include "udp/wire.h"

#define DAMAGE_IN_A_ROW 4 /* with none that is right between; a QP sends few that are not answered */

struct damage {
	uint8_t remote[WIRE_GID_BYTES]; /* where the last one came from */
	uint32_t in_a_row;
};

void damage_on_wrong(struct damage *damage, const struct wire_flow *flow);

/* Most often nothing was damaged before, and nothing happens. */
void damage_forget(struct damage *damage, const struct wire_flow *flow);

static inline void damage_on_right(struct damage *damage, const struct wire_flow *flow)
{
	if (damage->in_a_row)
		damage_forget(damage, flow);
}

#endif
