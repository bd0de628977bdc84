/*
 * Port store - lets the port groups of verbatimd --system outlive it, in its service manager's
 * descriptor store.
 *
 * In:  groups that begin and end; what the store had when this daemon was started.
 * Out: each group's descriptor store and record, stored as a pair under the name of its address;
 * groups as an earlier daemon left them.
 *
 * No process has these descriptor stores (daemon/port_group.h), and none is believed that brings
 * one: only what this user's own daemon gave to the manager comes back from it. The records say
 * which slots use an address. Those of processes that live come back with their tokens
 * (daemon/slots.h); the others are given up as soon as their tokens are gone.
 *
 * A daemon of one user stores nothing: its processes have the descriptor stores.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORT_STORE_H
#define DAEMON_PORT_STORE_H

#include "daemon/daemon.h"
#include "daemon/port_group.h"

#define PORT_STORE_RETURN_MS 2000 /* in which processes come back to a new daemon */
#define PORT_STORE_SOON_MS   50

/* At the beginning: takes what is stored. */
void port_store_restore(struct daemon *d);

/* A process is gone, and its slot's token is not: soon it may be. */
void port_store_look_soon(struct daemon *d);

/* A new group, before anybody has a socket of it. */
void port_store_add(struct daemon *d, const struct port_group *g);

/* One that ends for good. */
void port_store_remove(struct daemon *d, const struct port_group *g);

#endif
