/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port table - the UDP ports of this process that are open, and the epoll descriptor that watches
 * them.
 *
 * In:  sockets that were opened for an address of this host (port_open.c) or a group (ports.c).
 * Out: the port of an address or a group; packets at any of them make port_table_epoll readable.
 *
 * An entry never moves. Entries below port_table_count may be read without port_table_lock. An
 * address keeps its entry for ever. A group's entry is reused after the group was left, so finding
 * a group needs port_table_lock.
 *
 * Locks, in this order: a port's receive lock, qp->lock, port_table_lock, watch_lock.
 *
 * Barrier PORT: the thread that opens a port stores `wire` last (release); a thread that receives
 * loads it (acquire). The receive lock alone does not order the two.
 */
#ifndef ADAPTER_PORT_TABLE_H
#define ADAPTER_PORT_TABLE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "object/limits.h"
#include "udp/wire.h"

struct arena_traffic;

/* A group has one for each interface on which a QP is attached; and addresses of this host. */
#define PORT_TABLE_MAX (LIMIT_TOTAL_MCAST_QP_ATTACH + 128)
/* After so many looks in vain (a few milliseconds) threads look at a port only now and then. */
#define PORT_COLD_LOOKS 4096
/* For so long an address that was found counts as present. */
#define PORT_TRUST_NS 100000000ull

struct port {
	uint8_t gid[WIRE_GID_BYTES];
	_Atomic uint32_t ifindex;
	bool is_group;
	bool watched;	  /* its socket is in the epoll descriptor */
	uint32_t joins;	  /* of a group; guarded by port_table_lock */
	bool closing;	  /* likewise: the entry cannot be reused yet */
	struct lock lock; /* the receive lock: held to receive, from before `wire` is read */
	struct arena_traffic *traffic;	/* where its packets are counted; guarded likewise */
	struct wire_port *_Atomic wire; /* NULL: a group that was left */
	_Atomic uint32_t in_vain;	/* looks since the last packet */
	_Atomic uint64_t trusted_ns;	/* until then the address counts as present */
};

extern struct lock port_table_lock;
extern struct port port_table[PORT_TABLE_MAX];
extern _Atomic uint32_t port_table_count; /* entries that were ever in use */

/* `arena`: where open ports are shown. 0 or -errno. */
int port_table_init(void *arena);

/* Readable while any port, or raw socket, has packets. */
int port_table_epoll(void);

/*
 * Whether packets at ports make the epoll descriptor readable; frames at raw sockets always do.
 * Turned on, it is readable if packets wait already. False: the kernel refused, for want of memory
 * or by a limit (epoll(7)); it can be tried again.
 */
bool port_table_listen(bool on);

/* The port of an address; or that of a group, with port_table_lock. NULL: it is not open. */
struct port *port_table_find(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, bool is_group);

/* Takes over an open port of the device. 0, -ENOSPC, or what epoll answers. */
int port_table_add(struct wire_port *wire, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex,
		   bool is_group, const char *device) REQUIRES(port_table_lock);

/*
 * The port of an address, whose interface is gone. A port of a link-local address stays with its
 * interface. Asks the kernel, so without locks.
 */
bool port_table_is_stranded(const struct port *port);
/* Its address is on this interface now: what it sends to groups leaves here from now on. */
void port_table_move(struct port *port, uint32_t ifindex);

/*
 * Takes the port of a group out of the table. The caller closes it by port_table_close, without
 * port_table_lock: a thread that receives may wait for a QP's lock, whose holder may wait for
 * port_table_lock.
 */
struct wire_port *port_table_remove(struct port *port) REQUIRES(port_table_lock);
void port_table_close(struct port *port, struct wire_port *wire);

/* Closes the sockets. Memberships of groups stay the parent's. */
void port_table_reset_after_fork(void);

#endif
