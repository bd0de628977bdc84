/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages - the table of all requests, each with the function that serves it.
 *
 * In:  a client's message, of any content.
 * Out: a well-formed request, to the function that serves it; or a reason to disconnect the client.
 *
 * Owner: the daemon's one thread.
 */
#ifndef VERBATIMD_MESSAGES_H
#define VERBATIMD_MESSAGES_H

struct client;
struct fdmsg;

/* NULL, or why the client is to be disconnected. Descriptors that are not taken stay in m. */
const char *messages_on_message(struct client *c, struct fdmsg *m);

#endif
