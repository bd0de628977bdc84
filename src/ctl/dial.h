/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dial - connects to a verbatimd that may be trusted, and starts one if there is none.
 *
 * In:  which daemon is meant, whether one may be started, a deadline.
 * Out: a connected socket.
 *
 * Any thread. Blocks until the deadline at most.
 */
#ifndef CTL_DIAL_H
#define CTL_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dial_which {
	DIAL_ANY,    /* the system's if it is there, else the user's */
	DIAL_SYSTEM, /* verbatimd --system; never started from here */
	DIAL_USER,   /* the user's own */
};

/*
 * Tries once. *sock: non-blocking, close-on-exec, the caller's to close. *reached says which daemon
 * it is. 0; -ECONNREFUSED: none runs; -EAGAIN: it runs, and is too busy to accept; -EPERM: its name
 * is held by another user's process; -errno.
 */
int dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
		 size_t why_len);

/*
 * Tries until the deadline (monotonic clock), and starts the user's daemon if need be. Results as
 * above, and those of launch_daemon; -ETIMEDOUT; why is set on every failure.
 */
int dial_daemon(enum dial_which which, int64_t deadline_ns, int *sock, enum dial_which *reached,
		char *why, size_t why_len);

#endif
