/*
 * Answer - waits for what verbatimd says, on a machine of any speed.
 *
 * In:  a connection to it on which something was asked.
 * Out: its next message.
 *
 * A daemon that has not answered in the usual time hangs, or it wants a processor and gets none.
 * /proc tells the two apart: who wants one is runnable, who hangs sleeps or is stopped. The first
 * is waited for.
 *
 * Any thread; blocks.
 */
#ifndef CTL_ANSWER_H
#define CTL_ANSWER_H

#include <stdint.h>

#include "ctl/fdmsg.h"

/*
 * As fdmsg_wait: until usual_ns, and while the process at the other end is runnable until
 * latest_ns, both of the monotonic clock. A process that cannot be seen is not waited for.
 */
int answer_wait(int sock, int64_t usual_ns, int64_t latest_ns, struct fdmsg *out);

#endif
