/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LID - LIDs and GIDs for IPv4 addresses in the link mode VERBATIM_LINK_LAYER=infiniband.
 *
 * Below the verbs an address is an IPv4-mapped GID, in either link mode. With this link mode
 * programs see instead
 *
 *   LID   the low 16 bits of the IPv4 address
 *   GID   fe80::200:5efe:a.b.c.d (RFC 5214): a subnet prefix, an identifier with the address
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
/* The inverse; false: `shown` does not have that prefix. */
bool lid_resolve_gid(const union ibv_gid *shown, union ibv_gid *mapped);

/* The GID with this LID in the subnet of `own`; false: LID 0, or `own` is no IPv4 address. */
bool lid_resolve(uint16_t lid, const union ibv_gid *own, union ibv_gid *mapped);

/*
 * Rewrites the 40 bytes before a received datagram in place: from RoCEv2's form into the GRH of
 * this link mode. Returns the sender's LID, 0 if it has none.
 */
uint16_t lid_rewrite_grh(uint8_t header[40]);

#endif
