/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/same_host.h"

#include <string.h>

#include "iwarp/bytes.h"

/* A place: the QPN, four bytes of 0, the cookie. A frame: a key, and a place or zeros. */
#define AT_COOKIE 8
#define KEY_BYTES 8

static const uint8_t frame_key[KEY_BYTES] = { 'V', 'e', 'r', 'b', 'a', 't', 'i', 'm' };

void same_host_put_place(uint8_t to[SAME_HOST_PLACE_BYTES], const struct same_host_place *place)
{
	memset(to, 0, SAME_HOST_PLACE_BYTES);
	put32(to, place->qpn);
	put64(to + AT_COOKIE, place->cookie);
}

void same_host_get_place(const uint8_t from[SAME_HOST_PLACE_BYTES], struct same_host_place *place)
{
	place->qpn = get32(from);
	place->cookie = get64(from + AT_COOKIE);
}

void same_host_put_frame(uint8_t to[SAME_HOST_FRAME_BYTES], const struct same_host_place *place)
{
	memset(to, 0, SAME_HOST_FRAME_BYTES);
	memcpy(to, frame_key, KEY_BYTES);
	if (place)
		same_host_put_place(to + KEY_BYTES, place);
}

bool same_host_get_frame(const uint8_t from[SAME_HOST_FRAME_BYTES], bool *shared,
			 struct same_host_place *place)
{
	if (memcmp(from, frame_key, KEY_BYTES))
		return false;
	same_host_get_place(from + KEY_BYTES, place);
	*shared = place->qpn != 0;
	return true;
}
