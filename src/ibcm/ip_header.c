/* SPDX-License-Identifier: BSD-2-Clause */
#include "ibcm/ip_header.h"

#include <string.h>

#define SPACE_IPOIB 0x0002

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static void put_address(uint8_t *at, bool is_v4, const uint8_t *gid)
{
	memset(at, 0, IBCM_GID_BYTES);
	if (is_v4)
		memcpy(at + 12, gid + 12, 4);
	else
		memcpy(at, gid, IBCM_GID_BYTES);
}

static void get_address(const uint8_t *at, bool is_v4, uint8_t *gid)
{
	memcpy(gid, at, IBCM_GID_BYTES);
	if (is_v4)
		memcpy(gid, mapped, sizeof(mapped));
}

void ip_header_encode(const struct ip_header *header, uint8_t bytes[IP_HEADER_BYTES])
{
	bytes[0] = 0;
	bytes[1] = header->is_v4 ? 4 << 4 : 6 << 4;
	bytes[2] = (uint8_t)(header->source_port >> 8);
	bytes[3] = (uint8_t)header->source_port;
	put_address(bytes + 4, header->is_v4, header->source);
	put_address(bytes + 20, header->is_v4, header->destination);
}

bool ip_header_decode(const uint8_t bytes[IP_HEADER_BYTES], struct ip_header *out)
{
	unsigned version = bytes[1] >> 4;

	if (bytes[0] != 0 || (version != 4 && version != 6))
		return false;
	out->is_v4 = version == 4;
	out->source_port = (uint16_t)(bytes[2] << 8 | bytes[3]);
	get_address(bytes + 4, out->is_v4, out->source);
	get_address(bytes + 20, out->is_v4, out->destination);
	return true;
}

uint64_t ip_header_service_id(uint16_t space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

bool ip_header_service(uint64_t service_id, uint16_t *space, uint16_t *port)
{
	/* Port spaces are 0x01xx (IBA annex A11), and that of IPoIB (librdmacm). */
	if (service_id >> 32 ||
	    ((service_id >> 24 & 0xff) != 0x01 && service_id >> 16 != SPACE_IPOIB))
		return false;
	*space = (uint16_t)(service_id >> 16);
	*port = (uint16_t)service_id;
	return true;
}
