#include "udp/udp_address.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool udp_address_is_v4(const uint8_t gid[WIRE_GID_BYTES])
{
	return !memcmp(gid, mapped, sizeof(mapped));
}

bool udp_address_is_multicast(const uint8_t gid[WIRE_GID_BYTES])
{
	return udp_address_is_v4(gid) ? (gid[12] & 0xf0) == 0xe0 : gid[0] == 0xff;
}

bool udp_address_is_scoped(const uint8_t gid[WIRE_GID_BYTES])
{
	if (udp_address_is_v4(gid))
		return false;
	if (gid[0] == 0xff) /* interface-local and link-local groups */
		return (gid[1] & 0xf) == 1 || (gid[1] & 0xf) == 2;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

socklen_t udp_address_from_gid(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, uint16_t port,
			       union udp_address *out)
{
	memset(out, 0, sizeof(*out));
	if (udp_address_is_v4(gid)) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, gid + sizeof(mapped), sizeof(out->v4.sin_addr));
		return sizeof(out->v4);
	}
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons(port);
	out->v6.sin6_scope_id = udp_address_is_scoped(gid) ? ifindex : 0;
	memcpy(&out->v6.sin6_addr, gid, WIRE_GID_BYTES);
	return sizeof(out->v6);
}

void udp_address_v4_to_gid(const struct in_addr *address, uint8_t gid[WIRE_GID_BYTES])
{
	memcpy(gid, mapped, sizeof(mapped));
	memcpy(gid + sizeof(mapped), address, sizeof(*address));
}

void udp_address_to_gid(const union udp_address *address, uint8_t gid[WIRE_GID_BYTES])
{
	if (address->any.sa_family == AF_INET)
		udp_address_v4_to_gid(&address->v4.sin_addr, gid);
	else
		memcpy(gid, &address->v6.sin6_addr, WIRE_GID_BYTES);
}

uint16_t udp_address_port(const union udp_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port
						       : address->v6.sin6_port);
}
