/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port table - the UDP ports of this process that are open, and the epoll descriptor that watches
 * them.
 *
 * In:  sockets that were opened for an address of this host (port_open.c) or a group (ports.c).
 * Out: the port of an address or a group; packets at any of them make port_table_epoll readable.
 *
 * An entry never moves. Entries below port_table_count may be read without port_table_lock. The
 * entry of an address stays its entry. The entry of a group that was left is used again for another
 * group, so finding a group needs port_table_lock.
 *
 * Locks, in this order: a port's receive lock, qp->lock, port_table_lock, and the lock that guards
 * what is watched.
 *
 * Barrier PORT: `wire` is stored (release) after all that it takes to use it, and loaded (acquire)
 * by the thread that receives: the receive lock alone does not order that thread behind the one
 * that opened the port.
 */
#ifndef ADAPTER_PORT_TABLE_H
#define ADAPTER_PORT_TABLE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "udp/wire.h"

#define PORT_TABLE_MAX 128
/* After so many looks in vain (a few milliseconds) a port is looked at now and then only. */
#define PORT_COLD_LOOKS 4096
/* So long an address that was there is taken to be there still. */
#define PORT_TRUST_NS 100000000ull

struct port {
	uint8_t gid[WIRE_GID_BYTES];
	uint32_t ifindex;
	bool is_group;
	bool watched;	  /* its socket is in the epoll descriptor */
	uint32_t joins;	  /* of a group; guarded by port_table_lock */
	bool closing;	  /* likewise: the entry is not yet to be used again */
	struct lock lock; /* the receive lock: held to receive, from before `wire` is read */
	struct wire_port *_Atomic wire; /* NULL: a group that was left */
	_Atomic uint32_t in_vain;	/* looks since the last packet */
	_Atomic uint64_t trusted_ns;	/* until then the address need not be looked for */
};

extern struct lock port_table_lock;
extern struct port port_table[PORT_TABLE_MAX];
extern _Atomic uint32_t port_table_count; /* entries that were ever in use */

/* `arena`: where open ports are shown. 0 or -errno. */
int port_table_init(void *arena);

/* Readable while any port, or raw socket, has packets. */
int port_table_epoll(void);

/*
 * Whether packets at ports make it readable; frames at raw sockets always do. When this begins it
 * is readable if packets lie there already. False: it did not begin, for want of memory or by a
 * limit of the system (epoll(7)), and can be tried again.
 */
bool port_table_listen(bool on);

/* The port of an address; or that of a group, with port_table_lock. NULL: it is not open. */
struct port *port_table_find(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, bool is_group);

/* Takes over an open port. 0, -ENOSPC, or what epoll answers. */
int port_table_add(struct wire_port *wire, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex,
		   bool is_group) REQUIRES(port_table_lock);

/*
 * The port of a group is no longer found. What is returned is then closed by port_table_close,
 * without port_table_lock: a thread that receives may wait for the lock of a QP whose owner waits
 * for that one.
 */
struct wire_port *port_table_remove(struct port *port) REQUIRES(port_table_lock);
void port_table_close(struct port *port, struct wire_port *wire);

/* Sockets are closed; memberships of groups are the parent's. */
void port_table_reset_after_fork(void);

#endif
