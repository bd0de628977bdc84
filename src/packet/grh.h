/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GRH - the 40 bytes before the payload of a received datagram (IBA annex A17.4.5.2).
 *
 * RoCEv2 has no GRH. The 40 bytes are the IPv6 header of the packet, or zeroes and, in the last 20
 * bytes, its IPv4 header. Pure.
 */
#ifndef PACKET_GRH_H
#define PACKET_GRH_H

#include <stdbool.h>
#include <stdint.h>

#define GRH_BYTES 40

struct grh_fields {
	const uint8_t *source,
		*destination; /* GIDs; an IPv4-mapped one, or an IPv4 group, gives an IPv4 header */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label; /* IPv6 only */
	uint32_t udp_bytes;  /* the UDP header and all after it */
};

void grh_build(uint8_t grh[GRH_BYTES], const struct grh_fields *fields);

/* The destination address, as a GID. */
void grh_destination(uint8_t gid[16], const uint8_t grh[GRH_BYTES]);

#endif
