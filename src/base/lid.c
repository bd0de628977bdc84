/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lid.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/gid.h"

/* fe80::200:5efe:0:0 without its last four bytes; the universal bit is not set. */
static const uint8_t prefix[12] = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x00, 0x5e, 0xfe };

#define NEXT_HEADER_IBA 0x1b /* IBA 8.3.5 */

uint16_t lid_of(const union ibv_gid *mapped)
{
	return gid_is_v4(mapped->raw) ? (uint16_t)(mapped->raw[14] << 8 | mapped->raw[15]) : 0;
}

bool lid_show_gid(const union ibv_gid *mapped, union ibv_gid *shown)
{
	if (!gid_is_v4(mapped->raw))
		return false;
	memcpy(shown->raw + 12, mapped->raw + 12, 4);
	memcpy(shown->raw, prefix, sizeof(prefix));
	return true;
}

bool lid_resolve_gid(const union ibv_gid *shown, union ibv_gid *mapped)
{
	if (memcmp(shown->raw, prefix, sizeof(prefix)) != 0)
		return false;
	gid_from_v4(shown->raw + 12, mapped->raw);
	return true;
}

bool lid_resolve(uint16_t lid, const union ibv_gid *own, union ibv_gid *mapped)
{
	if (!lid || !gid_is_v4(own->raw))
		return false;
	*mapped = *own;
	mapped->raw[14] = (uint8_t)(lid >> 8);
	mapped->raw[15] = (uint8_t)lid;
	return true;
}

static void read_ipv4(const uint8_t header[40], struct ibv_grh *grh)
{
	struct iphdr ip;

	memcpy(&ip, header + 20, sizeof(ip));
	grh->version_tclass_flow = htonl(6u << 28 | (uint32_t)ip.tos << 20);
	grh->paylen = htons((uint16_t)(ntohs(ip.tot_len) - sizeof(ip)));
	grh->hop_limit = ip.ttl;
	gid_from_v4(&ip.saddr, grh->sgid.raw);
	gid_from_v4(&ip.daddr, grh->dgid.raw);
}

uint16_t lid_rewrite_grh(uint8_t header[40])
{
	struct ibv_grh grh = { 0 };
	uint16_t lid;

	if (header[20] == 0x45 && header[0] >> 4 != 6)
		read_ipv4(header, &grh);
	else
		memcpy(&grh, header, sizeof(grh));
	grh.next_hdr = NEXT_HEADER_IBA;
	lid = lid_of(&grh.sgid);
	lid_show_gid(&grh.sgid, &grh.sgid);
	lid_show_gid(&grh.dgid, &grh.dgid);
	memcpy(header, &grh, sizeof(grh));
	return lid;
}
