/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port group - the sockets that share UDP port 4791 of one local address, one for each slot.
 *
 * In:  an address; or the descriptor store of a group that an earlier daemon made.
 * Out: sockets. The kernel gives each datagram to the socket whose index in the group
 *      (SO_REUSEPORT) is the slot in the BTH's destination QPN; datagrams for slots beyond the
 *      group go to socket 0, which is the daemon's own (cmserver/gsi.h).
 *
 * Sockets are made in the order of slots, and none is closed while the group lives. A group has a
 * record, a memfd: which slots use the address, and the users that their sockets were given to.
 *
 * Owner: the daemon's one thread. Never blocks. See docs/design/port.md: how the group outlives its
 * daemon.
 */
#ifndef DAEMON_PORT_GROUP_H
#define DAEMON_PORT_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "event/fdref.h"

#define PORT_RECORD_MAGIC UINT64_C(0x3164726f63657256) /* differs for another layout */

struct port_record {
	uint64_t magic;
	uint64_t uids[CTL_SLOT_MAX + 1];  /* the socket's last user, plus 1; 0: none yet */
	uint64_t users[CTL_BITMAP_WORDS]; /* the slots of processes that use the address */
};

struct port_group {
	struct list in_daemon;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;	/* of a link-local address, else 0 */
	struct fdref *fd_store; /* processes have it, too, and may have added anything */
	struct fdref *sockets[CTL_SLOT_MAX + 1]; /* by slot */
	unsigned count;				 /* there are sockets 0..count-1 */
	unsigned steered;			 /* sockets that the BPF program steers to */
	uint64_t begun_by;			 /* uid + 1; 0: for nobody alone, or not known */
	struct port_record *record;		 /* mapped */
	int record_fd;
};

/*
 * A new group for an address of this host. 0; -EADDRINUSE: the port is taken; -EADDRNOTAVAIL: no
 * address of this host; -errno.
 */
int port_group_create(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, struct port_group **out);

/*
 * The group whose descriptor store this is; fd_store stays the caller's. 0; -EPROTO: it is not this
 * address's descriptor store; -errno.
 */
int port_group_adopt(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, int fd_store,
		     struct port_group **out);

/*
 * The same for verbatimd --system, with the record: the slots that used the address use it on.
 * record_fd stays the caller's. 0; -EPROTO; -errno.
 */
int port_group_restore(const uint8_t gid[CTL_GID_BYTES], uint32_t ifindex, int fd_store,
		       int record_fd, struct port_group **out);

bool port_group_has_fd_store(const struct port_group *g, int fd_store);

/* A process of this user may have the slot. */
bool port_group_suits(const struct port_group *g, unsigned slot, uid_t uid);

/* The slot's process uses the address from now on. Older datagrams are dropped. 0 or -errno. */
int port_group_use(struct port_group *g, unsigned slot, uid_t uid);

/* The same for a process that used it with an earlier daemon: older datagrams stay. */
int port_group_use_on(struct port_group *g, unsigned slot, uid_t uid);

bool port_group_is_user(const struct port_group *g, unsigned slot);

/* The slot's process no longer uses the address. True: no slot does. */
bool port_group_leave(struct port_group *g, unsigned slot);

/* Closes all descriptors of the group in this daemon. */
void port_group_destroy(struct port_group *g);

#endif
