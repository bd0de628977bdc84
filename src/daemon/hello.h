/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hello - the first message of a connection, which says what the client is.
 *
 * In:  HELLO or OBSERVE of the right form. CM_HELLO is connection management's, which answers with
 *      what is here.
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
 * Disconnects the client when its process dies. Its socket alone does not tell: a forked child that
 * lives on has a copy of it. It has to do for a process that cannot be seen (another pid namespace)
 * or watched (an old kernel, a sandbox). 0; -ESRCH: the process is dead already; -errno.
 */
int hello_watch_death(struct client *c);

/*
 * Answers with WELCOME. number: the slot, or the session. token_fd: taken over, and the client's
 * alone once it is sent; -1: none.
 */
void hello_welcome(struct client *c, uint32_t seq, unsigned number, int token_fd);

/* Answers with a positive errno and disconnects. seq: of the message that is refused. */
void hello_refuse(struct client *c, uint32_t seq, int status);

#endif
