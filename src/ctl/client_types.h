/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client types - what the calls of the control client give, and how long they wait.
 */
#ifndef CTL_CLIENT_TYPES_H
#define CTL_CLIENT_TYPES_H

#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"

#define CTL_CONNECT_MS 30000 /* to find the daemon, or to start one; a busy machine is slow */
#define CTL_REQUEST_MS 2000  /* for an answer of a daemon that runs */

/* Another process of this user (or this one). The descriptors are the receiver's to close. */
struct ctl_peer_info {
	unsigned slot; /* 1..CTL_SLOT_MAX */
	pid_t pid;     /* as the daemon sees it; 0 from another pid namespace */
	uid_t uid;
	unsigned side; /* this process's end of the link: 0 or 1 */
	int arena_fd;  /* memfd; cannot shrink or grow */
	int wake_fd;   /* eventfd */
	int link_fd;   /* memfd of LINK_BYTES_LONG or LINK_BYTES_SHORT; cannot shrink or grow; the
			  same for both ends */
	int heap_fd;   /* memfd with the peer's migrated pages; cannot shrink or grow */
};

enum ctl_notice_kind {
	CTL_LINK,    /* peer: a link that the peer asked for, or ctl_peer_ask did */
	CTL_NO_PEER, /* peer.slot: ctl_peer_ask asked for it, and no link can be had */
	CTL_DEATH,   /* peer.slot, peer.pid: a linked process is gone; descriptors are -1 */
	/*
	 * mgid: a process of this user came or went as a member; while this process did not take
	 * its notices, of other groups, too
	 */
	CTL_MCAST_CHANGED,
	CTL_MEMBERS,   /* question, members: the answer to ctl_mcast_ask */
	CTL_PORT_OPEN, /* port: the answer to ctl_port_ask */
};

/* As of ctl_port. The descriptor is the receiver's to close. */
struct ctl_port_answer {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
	int error; /* 0 or -errno, with `why` */
	int fd;	   /* -1 with an error */
	char why[CTL_WHY_BYTES];
};

struct ctl_notice {
	enum ctl_notice_kind kind;
	/*
	 * With CTL_LINK the descriptors are all -1 if this process had no room for them; ctl_peer
	 * may get them later.
	 */
	struct ctl_peer_info peer;
	int error; /* with CTL_NO_PEER: ENOENT, there is no such process; or why the daemon failed
		    */
	uint8_t mgid[CTL_MGID_BYTES];
	uint32_t question;
	uint64_t members[CTL_BITMAP_WORDS];
	struct ctl_port_answer port;
};

#endif
