/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/slot_token.h"

#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/token.h"

bool slot_token_answers(struct daemon *d, int fd, unsigned slot)
{
	struct sockname name;

	sockname_of_slot(&d->space, slot, &name);
	return token_is_held(fd, &name);
}

bool slot_token_is_held(struct daemon *d, unsigned slot)
{
	int fd = token_make_socket();
	bool held = fd < 0 || slot_token_answers(d, fd, slot);

	if (fd >= 0)
		close(fd);
	return held;
}

static bool any_away(struct daemon *d)
{
	int fd = token_make_socket();
	bool away = false;

	for (unsigned slot = 1; fd >= 0 && !away && slot <= CTL_SLOT_MAX; slot++) {
		if (!d->by_slot[slot])
			away = slot_token_answers(d, fd, slot);
	}
	if (fd >= 0)
		close(fd);
	return away;
}

bool slot_token_any_away(struct daemon *d)
{
	if (d->away_turn != d->loop.turn)
		d->is_any_away = any_away(d);
	d->away_turn = d->loop.turn;
	return d->is_any_away;
}
