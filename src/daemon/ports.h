/*
 * Ports - gives processes their sockets of UDP port 4791, of the addresses that they use.
 *
 * In:  requests of processes; what they kept from an earlier daemon; their deaths.
 * Out: sockets of port groups (daemon/port_group.h), which begin with the first process that uses
 * an address and end with the last.
 *
 * An address whose port is taken, while processes live that have a slot and have not come back to
 * this daemon, may well be theirs: then the answer is to ask again (EAGAIN). So it is when the
 * address's group has just ended, and may not be closed yet: within ENDED_PORT_MS, or as long as
 * something is being closed (event/close_pool.h). Otherwise it is a stranger's (EADDRINUSE).
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_PORTS_H
#define DAEMON_PORTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/port_group.h"

#define PORT_GROUPS_MAX 256
#define ENDED_PORT_MS	1000 /* for a process that ends to be gone: it may have to wait for a processor */

void ports_on_port(struct client *c, struct fdmsg *m);
void ports_on_kept(struct client *c, struct fdmsg *m);

/*
 * The daemon itself uses an address: the socket of slot 0 is its own to read and write, and stays until
 * ports_leave_for_daemon. 0, or -errno as of port_group_create and port_group_use; -EAGAIN: processes
 * that have not come back to this daemon yet may have the port, or it is being closed.
 */
int ports_use_for_daemon(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
			 struct port_group **out);
void ports_leave_for_daemon(struct daemon *d, struct port_group *g);

/* Whether a process of this user may have the slot, as far as ports are concerned. */
bool ports_suit(struct daemon *d, unsigned slot, uid_t uid);

/* A group that an earlier daemon stored (daemon/port_store.h). 0 or -errno, as of port_group_restore. */
int ports_restore(struct daemon *d, const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex,
		  int fd_store, int record_fd);

/*
 * Of those that used ports when an earlier daemon ended, and have not come back, the dead use them no more.
 * Returns whether others live.
 */
bool ports_give_up_dead(struct daemon *d);

/* Who had the slot before is dead. */
void ports_on_new_slot(struct daemon *d, unsigned slot);

/* c may have no slot. */
void ports_on_death(struct client *c);

/* The daemon ends: what is in use lives on in the processes. */
void ports_on_end(struct daemon *d);

#endif
