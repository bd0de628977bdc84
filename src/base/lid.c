#include "base/lid.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <string.h>

/* fe80::200:5efe:0:0 without its last four bytes; the universal bit is not set. */
static const uint8_t prefix[12] = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x00, 0x5e, 0xfe };
static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

#define NEXT_HEADER_IBA 0x1b /* IBA 8.3.5 */

static bool is_mapped(const union ibv_gid *gid)
{
	return memcmp(gid->raw, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

uint16_t lid_of(const union ibv_gid *mapped)
{
	return is_mapped(mapped) ? (uint16_t)(mapped->raw[14] << 8 | mapped->raw[15]) : 0;
}

bool lid_show_gid(const union ibv_gid *mapped, union ibv_gid *shown)
{
	if (!is_mapped(mapped))
		return false;
	memcpy(shown->raw + 12, mapped->raw + 12, 4);
	memcpy(shown->raw, prefix, sizeof(prefix));
	return true;
}

bool lid_resolve_gid(const union ibv_gid *shown, union ibv_gid *mapped)
{
	if (memcmp(shown->raw, prefix, sizeof(prefix)) != 0)
		return false;
	memcpy(mapped->raw + 12, shown->raw + 12, 4);
	memcpy(mapped->raw, mapped_prefix, sizeof(mapped_prefix));
	return true;
}

bool lid_resolve(uint16_t lid, const union ibv_gid *own, union ibv_gid *mapped)
{
	if (!lid || !is_mapped(own))
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
	memcpy(grh->sgid.raw, mapped_prefix, sizeof(mapped_prefix));
	memcpy(grh->sgid.raw + 12, &ip.saddr, 4);
	memcpy(grh->dgid.raw, mapped_prefix, sizeof(mapped_prefix));
	memcpy(grh->dgid.raw + 12, &ip.daddr, 4);
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
