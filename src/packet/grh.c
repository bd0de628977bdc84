/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/grh.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stddef.h>
#include <string.h>

#include "base/gid.h"

#define IPV4_OFFSET 20
#define VERSION_IHL 0x45 /* of an IPv4 header without options */

static uint16_t ip_checksum(const void *header)
{
	uint16_t words[sizeof(struct iphdr) / 2];
	uint32_t sum = 0;

	memcpy(words, header, sizeof(words));
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

void grh_build(uint8_t grh[GRH_BYTES], const struct grh_fields *fields)
{
	memset(grh, 0, GRH_BYTES);
	if (gid_is_v4(fields->source) &&
	    (gid_is_v4(fields->destination) || gid_is_v4_multicast(fields->destination))) {
		struct iphdr ip = {
			.version = 4,
			.ihl = 5,
			.tos = fields->traffic_class,
			.tot_len = htons((uint16_t)(sizeof(ip) + fields->udp_bytes)),
			.frag_off = htons(IP_DF),
			.ttl = fields->hop_limit,
			.protocol = IPPROTO_UDP,
		};

		memcpy(&ip.saddr, fields->source + 12, 4);
		memcpy(&ip.daddr, fields->destination + 12, 4);
		ip.check = ip_checksum(&ip);
		memcpy(grh + IPV4_OFFSET, &ip, sizeof(ip));
	} else {
		struct ip6_hdr ip = {
			.ip6_flow = htonl(6u << 28 | (uint32_t)fields->traffic_class << 20 |
					  (fields->flow_label & 0xfffff)),
			.ip6_plen = htons((uint16_t)fields->udp_bytes),
			.ip6_nxt = IPPROTO_UDP,
			.ip6_hlim = fields->hop_limit,
		};

		memcpy(&ip.ip6_src, fields->source, 16);
		memcpy(&ip.ip6_dst, fields->destination, 16);
		memcpy(grh, &ip, sizeof(ip));
	}
}

void grh_destination(uint8_t gid[16], const uint8_t grh[GRH_BYTES])
{
	if (grh[IPV4_OFFSET] == VERSION_IHL) {
		gid_from_v4(grh + IPV4_OFFSET + offsetof(struct iphdr, daddr), gid);
	} else {
		memcpy(gid, grh + offsetof(struct ip6_hdr, ip6_dst), 16);
	}
}
