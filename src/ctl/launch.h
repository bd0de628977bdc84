/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Launch - starts verbatimd from inside a program, without the program noticing.
 *
 * In:  the environment (VERBATIM_DAEMON names the binary) and where this library was loaded from.
 * Out: a daemon that is no child of the program, or one sentence that says why not.
 *
 * Any thread, with any other threads running: between clone and exec only system calls are made,
 * with all signals blocked, on stacks of their own. The intermediate child has no exit signal, so
 * the program gets no SIGCHLD and its own waits do not see it; it is reaped here. Only a program
 * that is the init of its pid namespace, or a subreaper, becomes the daemon's parent. The daemon
 * gets none of the program's environment but VERBATIM*. Blocks until the daemon listens, has given
 * way to another, or has failed.
 */
#ifndef CTL_LAUNCH_H
#define CTL_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include "ctl/dial.h"

/*
 * 0: the daemon listens, or has ended because another one listens or is about to. -errno: none
 * could be started; why (a sentence without a newline) says what was tried. deadline_ns: of the
 * monotonic clock. DIAL_SHARED starts that one, all others the user's own.
 */
int launch_daemon(enum dial_which which, int64_t deadline_ns, char *why, size_t why_len);

#endif
