/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/gid.h"

#include <arpa/inet.h>

bool gid_is_scoped(const uint8_t gid[GID_BYTES])
{
	if (gid[0] == 0xff) /* interface-local and link-local groups */
		return (gid[1] & 0xf) == 1 || (gid[1] & 0xf) == 2;
	return gid_is_link_local(gid);
}

bool gid_is_unicast(const uint8_t gid[GID_BYTES])
{
	if (gid_is_v4(gid))
		return gid[GID_V4_AT] != 0 && gid[GID_V4_AT] < 224;
	return gid[0] != 0xff && !gid_is_unspecified(gid);
}

bool gid_is_loopback(const uint8_t gid[GID_BYTES])
{
	static const uint8_t v6[GID_BYTES] = { [15] = 1 };

	return (gid_is_v4(gid) && gid[GID_V4_AT] == 127) || !memcmp(gid, v6, sizeof(v6));
}

bool gid_is_unspecified(const uint8_t gid[GID_BYTES])
{
	static const uint8_t none[GID_BYTES];
	size_t from = gid_is_v4(gid) ? GID_V4_AT : 0;

	return !memcmp(gid + from, none, sizeof(none) - from);
}

void gid_from_sockaddr(const struct sockaddr *address, uint8_t gid[GID_BYTES])
{
	if (address->sa_family == AF_INET)
		gid_from_v4(&((const struct sockaddr_in *)address)->sin_addr, gid);
	else
		memcpy(gid, &((const struct sockaddr_in6 *)address)->sin6_addr, GID_BYTES);
}

socklen_t gid_to_sockaddr(const uint8_t gid[GID_BYTES], uint32_t ifindex, uint16_t port,
			  union gid_sockaddr *out)
{
	memset(out, 0, sizeof(*out));
	if (gid_is_v4(gid)) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, gid + GID_V4_AT, sizeof(out->v4.sin_addr));
		return sizeof(out->v4);
	}
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons(port);
	out->v6.sin6_scope_id = gid_is_scoped(gid) ? ifindex : 0;
	memcpy(&out->v6.sin6_addr, gid, GID_BYTES);
	return sizeof(out->v6);
}

uint16_t gid_sockaddr_port(const union gid_sockaddr *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port
						       : address->v6.sin6_port);
}

bool gid_sockaddr_equal(const union gid_sockaddr *a, const union gid_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port && a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
	       !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

const char *gid_text(const uint8_t gid[GID_BYTES], char text[GID_TEXT_BYTES])
{
	bool is_v4 = gid_is_v4(gid);

	return inet_ntop(is_v4 ? AF_INET : AF_INET6, gid + (is_v4 ? GID_V4_AT : 0), text,
			 GID_TEXT_BYTES);
}
