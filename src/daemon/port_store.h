/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port store - keeps the port groups of verbatimd --system in the descriptor store of its service
 * manager.
 *
 * In:  groups that begin and end.
 * Out: each group's descriptor store and record, kept as a pair under the name of its address, for
 *      the next daemon (daemon/port_return.h).
 *
 * No process has the descriptor stores of this daemon (daemon/port_group.h), and it takes none from
 * a process: only what a daemon of the same user gave to the service manager comes back.
 *
 * The daemon of one user keeps nothing there: its processes have the descriptor stores.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORT_STORE_H
#define DAEMON_PORT_STORE_H

#include "daemon/daemon.h"
#include "daemon/port_group.h"

#define PORT_STORE_PREFIX     "port-" /* of all names */
#define PORT_STORE_NAME_BYTES 64

/* Whether this daemon keeps anything there. */
bool port_store_is_used(const struct daemon *d);

/* A new group, before a process has a socket of it. */
void port_store_add(struct daemon *d, const struct port_group *g);

/* The group ends for good. */
void port_store_remove(struct daemon *d, const struct port_group *g);

/* The same for a name that is of no use. */
void port_store_remove_name(const char *name);

/* False: it is no name of a port. */
bool port_store_read_name(const char *name, uint8_t gid[CTL_GID_BYTES], uint32_t *ifindex);

#endif
