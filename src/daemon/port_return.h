/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port return - takes up the port groups that verbatimd --system had before it ended.
 *
 * In:  the descriptors that the service manager kept (daemon/port_store.h).
 * Out: the groups as an earlier daemon left them.
 *
 * The records say which slots use an address. Living processes return with their tokens
 * (daemon/slots.h). The slot of a process that has ended is freed as soon as its token is gone.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORT_RETURN_H
#define DAEMON_PORT_RETURN_H

struct daemon;

#define PORT_RETURN_MS 2000 /* in which processes return to a new daemon */

/* To be called once, before a process asks for a port. */
void port_return_init(struct daemon *d);

#endif
