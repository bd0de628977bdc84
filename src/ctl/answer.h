/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answer - waits for verbatimd's answer, on a machine of any speed.
 *
 * In:  a connection to verbatimd on which a request was sent.
 * Out: its next message.
 *
 * A daemon that has not answered in the usual time hangs, or it gets no processor. /proc tells the
 * two apart: a process that wants a processor is runnable, one that hangs sleeps or is stopped.
 * Only the first is worth waiting for.
 *
 * Any thread; blocks.
 */
#ifndef CTL_ANSWER_H
#define CTL_ANSWER_H

#include <stdint.h>

#include "ctl/fdmsg.h"

/*
 * As fdmsg_wait: until usual_ns, and while the process at the other end is runnable until
 * latest_ns, both of the monotonic clock. There is no wait for a process that
 * cannot be seen.
 */
int answer_wait(int sock, int64_t usual_ns, int64_t latest_ns, struct fdmsg *out);

#endif
