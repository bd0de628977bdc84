/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM return - waits after a daemon's start for the processes of an earlier daemon.
 *
 * In:  the tokens of sessions that an earlier daemon gave; the sessions that return.
 * Out: what they had (cmserver/cm_restore.h), before any process makes a new request; then their
 *      connections go on.
 *
 * Each session has a token that its process holds: a socket whose name has the session's number. So
 * the daemon knows at its start how many sessions are to return, and when one of them has ended.
 * Until all are back, for CM_RETURN_MS at most, the daemon answers no BEGIN. So no process gets a
 * port that another one had, and no request is refused because its listener is late. Usually that
 * takes milliseconds; if no session is to return, the daemon does not wait.
 *
 * A connection with another host needs the port of its address. An earlier daemon opened it, and
 * the processes that use it bring it back, before or after the connection. A message that is sent
 * before is lost, and so is repeated once the port is open.
 *
 * A process may be stopped, and return much later. Connections with it on this host stay until its
 * token is gone: then the process has ended (cm_connection_end_orphan). Until then a message for a
 * connection that is not here gets no answer.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_RETURN_H
#define CMSERVER_CM_RETURN_H

#include <stdbool.h>
#include <stdint.h>

#include "cmserver/cm_moved.h"
#include "event/loop.h"

#define CM_RETURN_MS	  400
#define CM_RETURN_LOOK_MS 100

struct client;
struct cm;
struct cm_client;
struct fdmsg;

/* At most so many addresses without a port are tried at a time, each once. */
#define CM_RETURN_LACKED 8

struct cm_return {
	struct cm *cm;
	uint32_t *away; /* sessions */
	unsigned away_count;
	int64_t over_ns; /* when the wait ends at the latest */
	bool is_over;	 /* the wait is; BEGIN is answered */
	bool lacks_port; /* a connection with another host has no port yet */
	struct cm_place lacked[CM_RETURN_LACKED]; /* in the last try */
	unsigned lacked_count;
	struct loop_timer look;
};

/* Finds the sessions that are to return. */
void cm_return_init(struct cm *cm);
void cm_return_fini(struct cm_return *r);

/* Whether messages may be for a process that has not come back yet. */
bool cm_return_expects(const struct cm *cm);

/*
 * Whether a client may have the session: 0; -ESTALE: the session is not away; -EPERM: it is another
 * process's. The daemon of one user gives it to any process of that user without a look at the
 * token, whose name may be in another directory by now.
 */
int cm_return_admit(struct client *c, uint32_t session, int token_fd);

/*
 * A new session, with a number and a token, which is the caller's to send and close. 0 or -errno.
 */
int cm_return_make_token(struct cm_client *cc, int *token_fd);

/* The session has ended: removes its name. session 0: does nothing. */
void cm_return_forget(struct cm *cm, uint32_t session);

void cm_return_on_begin(struct client *c, struct fdmsg *m);

#endif
