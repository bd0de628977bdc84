#include "daemon/address.h"

#include <arpa/inet.h>
#include <string.h>

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool address_is_v4(const uint8_t gid[CTL_GID_BYTES])
{
	return !memcmp(gid, mapped, sizeof(mapped));
}

bool address_is_unicast(const uint8_t gid[CTL_GID_BYTES])
{
	static const uint8_t none[CTL_GID_BYTES];

	if (address_is_v4(gid))
		return gid[12] != 0 && gid[12] < 224;
	return gid[0] != 0xff && memcmp(gid, none, sizeof(none)) != 0;
}

bool address_is_link_local(const uint8_t gid[CTL_GID_BYTES])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

socklen_t address_make(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, union address *out)
{
	memset(out, 0, sizeof(*out));
	if (address_is_v4(gid)) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(CTL_UDP_PORT);
		memcpy(&out->v4.sin_addr, gid + sizeof(mapped), sizeof(out->v4.sin_addr));
		return sizeof(out->v4);
	}
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons(CTL_UDP_PORT);
	out->v6.sin6_scope_id = ifindex;
	memcpy(&out->v6.sin6_addr, gid, CTL_GID_BYTES);
	return sizeof(out->v6);
}

void address_to_gid(const union address *a, uint8_t gid[CTL_GID_BYTES])
{
	if (a->any.sa_family == AF_INET) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + sizeof(mapped), &a->v4.sin_addr, sizeof(a->v4.sin_addr));
	} else {
		memcpy(gid, &a->v6.sin6_addr, CTL_GID_BYTES);
	}
}

uint16_t address_port(const union address *a)
{
	return ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port);
}

bool address_equal(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port && a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
	       !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

void address_print(const uint8_t gid[CTL_GID_BYTES], char text[ADDRESS_TEXT_BYTES])
{
	if (address_is_v4(gid))
		inet_ntop(AF_INET, gid + sizeof(mapped), text, ADDRESS_TEXT_BYTES);
	else
		inet_ntop(AF_INET6, gid, text, ADDRESS_TEXT_BYTES);
}
