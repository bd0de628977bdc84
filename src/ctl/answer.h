/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answer - waits for verbatimd's answer, on a machine of any speed.
 *
 * In:  a connection to verbatimd on which a request was sent.
 * Out: its next message.
 *
 * A daemon that has not answered in the usual time hangs, or the scheduler does not run it. /proc
 * tells the two apart: the state of a process that waits for a processor is R. Only that is worth a
 * longer wait.
 *
 * Any thread; blocks.
 */
#ifndef CTL_ANSWER_H
#define CTL_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/fdmsg.h"

/*
 * As fdmsg_wait: until usual_ns, or until latest_ns while the process at the other end is runnable
 * (both of the monotonic clock). A process that /proc does not show counts as not runnable.
 */
int answer_wait(int sock, int64_t usual_ns, int64_t latest_ns, struct fdmsg *out);

/*
 * Whether the process that called listen() has another name than verbatimd. Then it is a service
 * manager (systemd.socket(5)), which may be about to start a verbatimd, or has started one: what
 * that does, nobody knows. False, too, if /proc does not show it.
 */
bool answer_is_by_manager(int sock);

#endif
