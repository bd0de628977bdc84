/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LID - LIDs and GIDs for IPv4 addresses in the link mode VERBATIM_LINK_LAYER=infiniband.
 *
 * Below the verbs an address is an IPv4-mapped GID, in either link mode. In this one programs see
 * instead
 *
 *   LID   the low 16 bits of the IPv4 address
 *   GID   fe80::200:5efe:a.b.c.d, a subnet prefix and an identifier that holds the address (RFC
 * 5214)
 *
 * and these functions convert between the three. A LID alone means an address with the upper 16
 * bits of our own. Pure.
 */
#ifndef BASE_LID_H
#define BASE_LID_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

uint16_t lid_of(const union ibv_gid *mapped); /* 0: it is no IPv4 address */

/* The GID that programs see; false: it is no IPv4 address. */
bool lid_show_gid(const union ibv_gid *mapped, union ibv_gid *shown);
/* And back; false: it is none of those. */
bool lid_resolve_gid(const union ibv_gid *shown, union ibv_gid *mapped);

/* Who has this LID, seen from `own`; false: a LID of 0, or `own` is no IPv4 address. */
bool lid_resolve(uint16_t lid, const union ibv_gid *own, union ibv_gid *mapped);

/*
 * The 40 bytes before a datagram as they are on a RoCE wire, made into the GRH of this mode (`flow`
 * and the like included), in place. Returns the sender's LID, 0 if it has none.
 */
uint16_t lid_rewrite_grh(uint8_t header[40]);

#endif
