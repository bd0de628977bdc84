/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM - connection management: what verbatimd does for librdmacm.
 *
 * In:  the daemon's start and end; CM_HELLO, with which a session begins or returns; the end of the
 *      processes that have sessions.
 * Out: WELCOME with the session's number, and its token if it is new; or a refusal. The requests of
 *      a session are cm_requests.h's.
 *
 * Owner: the daemon's one thread. See docs/design/cm.md.
 */
#ifndef CMSERVER_CM_H
#define CMSERVER_CM_H

#include <stdbool.h>

struct client;
struct daemon;
struct fdmsg;

/* 0 or -errno. */
int cm_init(struct daemon *d);

/* The daemon ends: forgets all connections and sends nothing; then the clients go. */
void cm_forget(struct daemon *d);
void cm_fini(struct daemon *d);

/* The first message of a client's connection, of the right form. */
void cm_on_hello(struct client *c, struct fdmsg *m);

/*
 * Whether the client, whose socket is closed, may be a process that lives and comes again: a call
 * of its librdmacm timed out while verbatimd was stopped. Then its state stays for the next moment,
 * in which a process that ends would have ended; and then what is for it is left to its return.
 */
bool cm_on_hang_up(struct client *c);

/* Does nothing if c has no session. */
void cm_on_death(struct client *c);

/* base/check.h: between two turns of the loop. */
void cm_check(const struct daemon *d);

#endif
