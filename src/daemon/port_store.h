/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port store - keeps the port groups of verbatimd --system in the descriptor store of its service
 * manager.
 *
 * In:  groups that begin and end.
 * Out: each group's descriptor store and record, kept as a pair under the name of its address, for
 *      the next daemon (daemon/port_return.h).
 *
 * Processes have no descriptor stores of this daemon (daemon/port_group.h), and it takes none from
 * a process: only a daemon of the same user can have given them to the service manager.
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

/* This daemon keeps its groups there. */
bool port_store_is_used(const struct daemon *d);

/* A new group, before a process has a socket of it. */
void port_store_add(struct daemon *d, const struct port_group *g);

/* The group ends for good. */
void port_store_remove(struct daemon *d, const struct port_group *g);

/* The same for an invalid name. */
void port_store_remove_name(const char *name);

/* False: not the name of a port. */
bool port_store_read_name(const char *name, uint8_t gid[CTL_GID_BYTES], uint32_t *ifindex);

#endif
