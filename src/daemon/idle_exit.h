/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exit on idle - how long the daemon of one user stays when no process needs it.
 *
 * In:  processes and sessions that begin and end.
 * Out: `over`, some time after the last of them has ended. A daemon of the system stays.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_IDLE_EXIT_H
#define DAEMON_IDLE_EXIT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/loop.h"

#define LINGER_MS 3000 /* unless VERBATIMD_LINGER_MS says otherwise */

struct idle_exit {
	struct loop *loop;
	struct loop_timer timer; /* armed while there are no users */
	int64_t ms;
	unsigned users;
	bool stays;
	bool over;
};

void idle_exit_init(struct idle_exit *l, struct loop *loop, bool stays);

/* Gives the process that started the daemon a moment to connect, however short `ms` is. */
void idle_exit_await_first(struct idle_exit *l);

void idle_exit_hold(struct idle_exit *l);
void idle_exit_release(struct idle_exit *l);

#endif
