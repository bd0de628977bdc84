/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hello - the first message of a connection, which says what the client is.
 *
 * In:  HELLO or OBSERVE of the right form. Connection management takes CM_HELLO, and answers it
 *      with functions of this file.
 * Out: WELCOME; a process with a slot that is watched for its death, or an observer, or a refusal.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_HELLO_H
#define DAEMON_HELLO_H

#include <stdint.h>

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void hello_on_hello(struct client *c, struct fdmsg *m);
void hello_on_observe(struct client *c, struct fdmsg *m);

/*
 * Disconnects the client when its process dies. The socket alone does not show that, because a
 * forked child may have a copy of it. But it has to suffice where the daemon does not see the
 * process (another pid namespace) or cannot watch it (an old kernel, a sandbox). 0; -ESRCH: the
 * process is dead already; -errno.
 */
int hello_watch_death(struct client *c);

/*
 * Answers with WELCOME. number: the slot, or the session. token_fd: taken over, and closed once it
 * is sent; -1: none.
 */
void hello_welcome(struct client *c, uint32_t seq, unsigned number, int token_fd);

/* Answers with a positive errno and disconnects. seq: of the message that is refused. */
void hello_refuse(struct client *c, uint32_t seq, int status);

#endif
