/*
 * Port store - keeps the port groups of verbatimd --system in the descriptor store of its service
 * manager.
 *
 * In:  groups that begin and end; what the service manager kept from an earlier daemon.
 * Out: each group's descriptor store and record, kept as a pair under the name of its address;
 *      groups as an earlier daemon left them.
 *
 * No process has the descriptor stores of this daemon (daemon/port_group.h), and it takes none from
 * a process: only what a daemon of the same user gave to the service manager comes back. The
 * records say which slots use an address. Processes that live come back with their tokens
 * (daemon/slots.h). The slot of a process that has ended is given up as soon as its token is gone.
 *
 * The daemon of one user keeps nothing there: its processes have the descriptor stores.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORT_STORE_H
#define DAEMON_PORT_STORE_H

#include "daemon/daemon.h"
#include "daemon/port_group.h"

#define PORT_STORE_RETURN_MS 2000 /* in which processes come back to a new daemon */
#define PORT_STORE_SOON_MS   50

/* At the start: takes what the service manager kept. */
void port_store_restore(struct daemon *d);

/* A process is gone, and its slot's token is not yet: looks again soon. */
void port_store_look_soon(struct daemon *d);

/* A new group, before a process has a socket of it. */
void port_store_add(struct daemon *d, const struct port_group *g);

/* The group ends for good. */
void port_store_remove(struct daemon *d, const struct port_group *g);

#endif
