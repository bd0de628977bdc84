/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listen - accepts connections on the daemon's name.
 *
 * In:  a name, which bind() gives to exactly one daemon.
 * Out: calls of on_connection; a refusal if that returns an error.
 *
 * Owner: the daemon's one thread. Without free descriptors it neither blocks nor spins: it uses a
 * reserve descriptor to accept a connection and refuse it.
 */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include <stdbool.h>

#include "event/loop.h"

struct ucred;

struct listener {
	struct loop_source on_call;
	/* Armed while connections wait because memory or descriptors are missing. */
	struct loop_timer resume;
	struct loop *loop;
	/* Takes over sock, or returns -errno. */
	int (*on_connection)(struct listener *l, int sock, const struct ucred *peer);
	int fd;		/* -1: it does not listen */
	int reserve_fd; /* -1 if it could not be opened again */
};

struct sockname;

/*
 * l->loop and l->on_connection are set. for_all: any user may connect to a socket in a directory.
 * 0; -EADDRINUSE: another process has the name; -errno.
 */
int listen_init(struct listener *l, const struct sockname *name, bool for_all);

/* Listens on a socket of the service manager, and takes it over on success. 0 or -errno. */
int listen_take(struct listener *l, int fd);

void listen_fini(struct listener *l);

#endif
