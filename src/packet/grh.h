/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GRH - the 40 bytes before the payload of a datagram that was received (IBA annex A17.4.5.2).
 *
 * RoCEv2 has no GRH: it is the IP header as on the wire, IPv6 in all of it, IPv4 in its last 20
 * bytes and zeroes before. Pure.
 */
#ifndef PACKET_GRH_H
#define PACKET_GRH_H

#include <stdbool.h>
#include <stdint.h>

#define GRH_BYTES 40

struct grh_fields {
	const uint8_t *source, *destination; /* GIDs; IPv4-mapped ones, or an IPv4 group: IPv4 */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label; /* IPv6 only */
	uint32_t udp_bytes;  /* the UDP header and all behind it */
};

void grh_build(uint8_t grh[GRH_BYTES], const struct grh_fields *fields);

/* The address it was sent to, as a GID. */
void grh_destination(uint8_t gid[16], const uint8_t grh[GRH_BYTES]);

#endif
