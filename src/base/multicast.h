/*
 * Multicast - which GIDs are multicast addresses.
 *
 * An IPv4 group a.b.c.d has two spellings: ::ffff:a.b.c.d, which Linux uses with RoCEv2, and
 * ff0e::ffff:a.b.c.d. They name the same group; the first is the one that is kept.
 */
#ifndef BASE_MULTICAST_H
#define BASE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool multicast_is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t group[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	return (!memcmp(gid, mapped, 12) || !memcmp(gid, group, 12)) && gid[12] >> 4 == 0xe;
}

static inline bool multicast_is(const uint8_t gid[16])
{
	return gid[0] == 0xff || multicast_is_v4(gid);
}

/* The spelling that is kept. */
static inline void multicast_canonical(uint8_t to[16], const uint8_t gid[16])
{
	memcpy(to, gid, 16);
	if (multicast_is_v4(gid))
		to[0] = to[1] = 0;
}

#endif
