/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM hello - the first message of a connection for connection management: a session begins, or
 * returns.
 *
 * In:  CM_HELLO of the right form.
 * Out: WELCOME with the session's number, and its token if it is new; or a refusal.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_HELLO_H
#define CMSERVER_CM_HELLO_H

struct client;
struct fdmsg;

void cm_hello_on_hello(struct client *c, struct fdmsg *m);

#endif
