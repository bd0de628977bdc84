/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dial - connects to a verbatimd that runs and may be trusted.
 *
 * In:  which daemon is meant.
 * Out: a connected socket.
 *
 * Any thread. Never blocks.
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
	DIAL_SHARED, /* that of VERBATIM_SOCKET_DIR */
};

/*
 * Tries once. *sock: non-blocking, close-on-exec, the caller's to close. *reached says which daemon
 * it is. 0; -ECONNREFUSED: none runs; -EAGAIN: it runs, and is too busy to accept; -EPERM: its name
 * is held by another user's process; -errno. why_len 0: nobody reads why (strerror may load a
 * translation).
 */
int dial_running(enum dial_which which, int *sock, enum dial_which *reached, char *why,
		 size_t why_len);

#endif
