/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Server - puts verbatimd together: its core (daemon/), connection management, and the table of
 * requests.
 *
 * In:  the users to serve.
 * Out: service, until no process has needed it for a while, or a signal ends it.
 *
 * Owner: the one thread there is.
 */
#ifndef VERBATIMD_SERVER_H
#define VERBATIMD_SERVER_H

#include "daemon/daemon.h"

/* Takes the name and listens. 0; -EADDRINUSE: another daemon has the name; -errno. */
int server_init(struct daemon *d, enum daemon_scope scope);

/* Serves until the end. */
void server_run(struct daemon *d);

/* Disconnects all clients. */
void server_fini(struct daemon *d);

#endif
