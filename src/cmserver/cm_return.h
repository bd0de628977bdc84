/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM return - waits after a daemon's start for the processes of an earlier daemon.
 *
 * In:  the sessions that are away (cmserver/cm_sessions.h); sessions that return, with BEGIN.
 * Out: their restored state (cmserver/cm_restore.h), before any process makes a new request; then
 *      their connections go on.
 *
 * Until all are back, for CM_SESSIONS_WAIT_MS at most, the daemon answers no BEGIN. So no process
 * gets a port that another one had, and no request is refused because its listener is late. Usually
 * that takes milliseconds; if no session is to return, the daemon does not wait.
 *
 * A connection with another host needs the port of its address. An earlier daemon opened it, and
 * the processes that use it bring it back, before or after the connection. A message that is sent
 * before that is lost, so it is repeated once the port is open.
 *
 * A process may be stopped, and return much later. Connections with it on this host stay until its
 * token is gone: then the process has ended (cm_connection_end_orphan). For the first while
 * (cm_sessions_expects) a message for a connection that is not here gets no answer.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_RETURN_H
#define CMSERVER_CM_RETURN_H

#include <stdint.h>
#include <sys/types.h>

struct client;
struct cm;
struct cm_return;
struct fdmsg;

/* Sets cm->returning; cm->sessions is there. 0 or -ENOMEM. */
int cm_return_create(struct cm *cm);
void cm_return_destroy(struct cm_return *r);

/* The session's process has lost its connection with this daemon, and may return to it. */
void cm_return_remember(struct cm_return *r, uint32_t session, uid_t uid);

void cm_return_on_begin(struct client *c, struct fdmsg *m);

#endif
