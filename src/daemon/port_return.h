/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port return - takes up the port groups that verbatimd --system had before it ended.
 *
 * In:  what the service manager kept (daemon/port_store.h).
 * Out: the groups as an earlier daemon left them.
 *
 * The records say which slots use an address. Processes that live come back with their tokens
 * (daemon/slots.h). The slot of a process that has ended is given up as soon as its token is gone.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORT_RETURN_H
#define DAEMON_PORT_RETURN_H

struct daemon;

#define PORT_RETURN_MS 2000 /* in which processes come back to a new daemon */

/* To be called once, before a process asks for a port. */
void port_return_init(struct daemon *d);

#endif
