/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/destroyed.h"

#include <stdlib.h>

static uint32_t *ids;
static unsigned count, room;

void destroyed_add(uint32_t id)
{
	if (count == room) {
		unsigned more = room ? 2 * room : 16;
		uint32_t *larger = realloc(ids, more * sizeof(*larger));

		if (!larger)
			return;
		ids = larger;
		room = more;
	}
	ids[count++] = id;
}

uint32_t destroyed_last(void)
{
	return count ? ids[count - 1] : 0;
}

void destroyed_drop_last(void)
{
	count--;
}

void destroyed_clear(void)
{
	count = 0;
}
