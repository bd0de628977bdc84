/*
 * Listen - takes calls on the daemon's name.
 *
 * In:  a name, which bind() gives to exactly one daemon.
 * Out: a client object per connection of a user who is served; a refusal to the others.
 *
 * Owner: the daemon's one thread. Running out of descriptors neither blocks it nor makes it spin:
 * one is held in reserve to answer with.
 */
#ifndef DAEMON_LISTEN_H
#define DAEMON_LISTEN_H

#include "event/loop.h"

struct daemon;

struct listener {
	struct loop_source on_call;
	struct loop_timer resume; /* armed while calls are left waiting for want of memory */
	struct daemon *daemon;
	int fd; /* -1: it does not listen */
	int reserve_fd; /* -1 if it could not be opened again */
};

struct sockname;

/* 0; -EADDRINUSE: somebody has the name; -errno. */
int listen_init(struct listener *l, struct daemon *d, const struct sockname *name);
/* Listens on what a service manager holds already, and takes it over on success. 0 or -errno. */
int listen_take(struct listener *l, struct daemon *d, int fd);
void listen_fini(struct listener *l);

#endif
