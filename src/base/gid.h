/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GID - the IP address that a RoCEv2 GID stands for: what kind it is, as a socket address, as text.
 *
 * An IPv4-mapped GID (::ffff:a.b.c.d) is an IPv4 address, any other an IPv6 address. Pure.
 *
 * An IPv4 group has two spellings: ::ffff:a.b.c.d, which Linux uses with RoCEv2, and
 * ff0e::ffff:a.b.c.d. They name the same group; gid_canonical() gives the first.
 */
#ifndef BASE_GID_H
#define BASE_GID_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define GID_BYTES      16
#define GID_V4_AT      12 /* where an IPv4-mapped GID has the IPv4 address */
#define GID_TEXT_BYTES INET6_ADDRSTRLEN

union gid_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline bool gid_is_v4(const uint8_t gid[GID_BYTES])
{
	static const uint8_t mapped[GID_V4_AT] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, mapped, sizeof(mapped));
}

/* :: alone; gid_is_unspecified is also true of 0.0.0.0. */
static inline bool gid_is_zero(const uint8_t gid[GID_BYTES])
{
	static const uint8_t zero[GID_BYTES];

	return !memcmp(gid, zero, sizeof(zero));
}

/* In either spelling. */
static inline bool gid_is_v4_multicast(const uint8_t gid[GID_BYTES])
{
	static const uint8_t group[GID_V4_AT] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	return (gid_is_v4(gid) || !memcmp(gid, group, sizeof(group))) && gid[GID_V4_AT] >> 4 == 0xe;
}

static inline bool gid_is_multicast(const uint8_t gid[GID_BYTES])
{
	return gid[0] == 0xff || gid_is_v4_multicast(gid);
}

/* IPv6 link-local unicast. */
static inline bool gid_is_link_local(const uint8_t gid[GID_BYTES])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* Valid on one interface only: link-local, or an IPv6 group of that scope. */
bool gid_is_scoped(const uint8_t gid[GID_BYTES]);

/* Can be an interface's own: not unspecified, a group, or broadcast. */
bool gid_is_unicast(const uint8_t gid[GID_BYTES]);

/* 127.0.0.0/8 or ::1. */
bool gid_is_loopback(const uint8_t gid[GID_BYTES]);

/* :: or 0.0.0.0. */
bool gid_is_unspecified(const uint8_t gid[GID_BYTES]);

static inline void gid_canonical(uint8_t to[GID_BYTES], const uint8_t gid[GID_BYTES])
{
	memcpy(to, gid, GID_BYTES);
	if (gid_is_v4_multicast(gid))
		to[0] = to[1] = 0;
}

/* `address`: the four bytes, as in struct in_addr. */
static inline void gid_from_v4(const void *address, uint8_t gid[GID_BYTES])
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + GID_V4_AT, address, sizeof(struct in_addr));
}

/* AF_INET or AF_INET6. */
void gid_from_sockaddr(const struct sockaddr *address, uint8_t gid[GID_BYTES]);

/* `port` in host order; `ifindex` counts where the GID is scoped. Returns the length. */
socklen_t gid_to_sockaddr(const uint8_t gid[GID_BYTES], uint32_t ifindex, uint16_t port,
			  union gid_sockaddr *out);

/* Host order. */
uint16_t gid_sockaddr_port(const union gid_sockaddr *address);
bool gid_sockaddr_equal(const union gid_sockaddr *a, const union gid_sockaddr *b);

/* Returns `text`. */
const char *gid_text(const uint8_t gid[GID_BYTES], char text[GID_TEXT_BYTES]);

#endif
