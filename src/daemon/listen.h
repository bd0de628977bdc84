/*
 * Listen - accepts connections on the daemon's name.
 *
 * In:  a name, which bind() gives to exactly one daemon.
 * Out: a client for each connection of a user that is served; a refusal to the others.
 *
 * Owner: the daemon's one thread. Without free descriptors it neither blocks nor spins: it keeps
 * one in reserve, with which it accepts a connection to refuse it.
 */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "event/loop.h"

struct daemon;

struct listener {
	struct loop_source on_call;
	struct loop_timer
		resume; /* armed while connections wait because memory or descriptors are missing */
	struct daemon *daemon;
	int fd; /* -1: it does not listen */
	int reserve_fd; /* -1 if it could not be opened again */
};

struct sockname;

/* 0; -EADDRINUSE: another process has the name; -errno. */
int listen_init(struct listener *l, struct daemon *d, const struct sockname *name);

/* Listens on a socket of the service manager, and takes it over on success. 0 or -errno. */
int listen_take(struct listener *l, struct daemon *d, int fd);

void listen_fini(struct listener *l);

#endif
