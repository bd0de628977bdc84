/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reach - connects to a verbatimd that may be trusted, and starts one if there is none.
 *
 * In:  which daemon is meant, a deadline.
 * Out: a connected socket.
 *
 * Any thread. Blocks until the deadline at most.
 */
#ifndef CTL_REACH_H
#define CTL_REACH_H

#include "ctl/dial.h"

/*
 * Dials until the deadline (monotonic clock), and starts that of the user, or of
 * VERBATIM_SOCKET_DIR, if need be. Results as of dial_running, and those of launch_daemon;
 * -ETIMEDOUT; why is set on every failure.
 */
int reach_daemon(enum dial_which which, int64_t deadline_ns, int *sock, enum dial_which *reached,
		 char *why, size_t why_len);

#endif
