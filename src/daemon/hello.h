/*
 * Hello - the first message of a connection: who comes in, and as what.
 *
 * In:  HELLO, CM_HELLO or OBSERVE of the right form.
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
void hello_on_cm(struct client *c, struct fdmsg *m);

/* Answers with a positive errno and hangs up. seq: of the message that is refused. */
void hello_refuse(struct client *c, uint32_t seq, int status);

#endif
