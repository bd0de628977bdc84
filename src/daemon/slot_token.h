/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slot token - finds out whether some process has the token of a slot (daemon/slots.h).
 *
 * In:  a slot.
 * Out: whether a socket is bound to the slot's name.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_SLOT_TOKEN_H
#define DAEMON_SLOT_TOKEN_H

#include <stdbool.h>

struct daemon;

bool slot_token_is_held(struct daemon *d, unsigned slot);

/* The same with a socket of the caller's (token_make_socket), for many slots in a row. */
bool slot_token_answers(struct daemon *d, int fd, unsigned slot);

/*
 * A process lives that has a slot from an earlier daemon and has not returned. Probes all names, so
 * only for failures, and once in a turn of the loop.
 */
bool slot_token_any_away(struct daemon *d);

#endif
