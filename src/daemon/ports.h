/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports - gives processes their sockets of UDP port 4791, of the addresses that they use.
 *
 * In:  requests of processes; descriptor stores that they kept from an earlier daemon; their
 *      deaths.
 * Out: sockets of port groups (daemon/port_group.h), which begin with the first process that uses
 *      an address and end with the last.
 *
 * If the port of an address is taken, the answer depends on its possible owner:
 *  - A process with a slot that lives, and has not returned to this daemon: EAGAIN, ask again.
 *  - The address's group has just ended, and may not be closed yet: EAGAIN within ENDED_PORT_MS, or
 *    as long as something is being closed (event/close_pool.h).
 *  - Anything else: EADDRINUSE.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORTS_H
#define DAEMON_PORTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/port_group.h"

#define PORT_GROUPS_MAX 256
#define ENDED_PORT_MS	1000 /* for a process to end: it may have to wait for a processor */

void ports_on_port(struct client *c, struct fdmsg *m);
void ports_on_kept(struct client *c, struct fdmsg *m);

/*
 * The daemon itself uses an address: the socket of slot 0 is its own to read and write, and stays
 * until ports_leave_for_daemon. begun_by: uid + 1 of the user for whom it does, or 0: for nobody
 * alone. 0, or -errno as of port_group_create and port_group_use; -ENOSPC: all of the user's share
 * are in use; -EAGAIN: processes that have not returned to this daemon yet may have the port, or it
 * is being closed.
 */
int ports_use_for_daemon(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
			 uint64_t begun_by, struct port_group **out);
void ports_leave_for_daemon(struct daemon *d, struct port_group *g);

/* No port group keeps a process of this user from having the slot. */
bool ports_suit(struct daemon *d, unsigned slot, uid_t uid);

/*
 * A group that an earlier daemon stored (daemon/port_store.h). 0 or -errno, as of
 * port_group_restore.
 */
int ports_restore(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
		  int fd_store, int record_fd);

/*
 * Frees the slots of processes that used ports with an earlier daemon, and ended before they
 * returned. True: some live and have not returned yet.
 */
bool ports_give_up_dead(struct daemon *d);

/* The process that had the slot before is dead. */
void ports_on_new_slot(struct daemon *d, unsigned slot);

/* Does nothing if c has no slot. */
void ports_on_death(struct client *c);

/* The daemon ends: ports in use live on in the processes. */
void ports_on_end(struct daemon *d);

#endif
