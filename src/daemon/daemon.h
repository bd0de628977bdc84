/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Daemon - the state of a verbatimd: its name, its clients, its slots, its groups.
 *
 * verbatimd/server.c creates and ends it; each file here changes its own part.
 *
 * Owner: the one thread there is.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "ctl/sockname.h"
#include "daemon/idle_exit.h"
#include "daemon/listen.h"
#include "daemon/users.h"
#include "event/loop.h"

struct client;
struct client_hooks;
struct cm;

enum daemon_scope {
	DAEMON_OF_USER,	  /* serves one uid, ends after its last client */
	DAEMON_OF_SYSTEM, /* serves all uids, stays */
	/*
	 * As that of one uid, for processes of several network namespaces (VERBATIM_SOCKET_DIR):
	 * slots and links, neither ports nor connections.
	 */
	DAEMON_OF_DIRECTORY,
};

/* An address that no process uses any more: daemon/ports.h. */
struct ended_port {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
	int64_t when_ns; /* 0: none */
};

#define ENDED_PORTS 64

#define COUNTS_BUCKETS 64

/* daemon/counts.h */
struct counts {
	struct list of_slot[CTL_SLOT_MAX + 1]; /* of processes that may come back */
	struct list of_user[COUNTS_BUCKETS];   /* of those that do not; by uid */
	unsigned of_user_count;		       /* in all buckets */
	struct list sums;		       /* that are under way */
	unsigned reads_left;		       /* of arenas, until it expires: */
	struct loop_timer refill;
};

struct daemon {
	enum daemon_scope scope;
	uid_t uid;		     /* its own; only a DAEMON_OF_SYSTEM serves others */
	struct sockname_space space; /* of its socket's name and its slots' */
	struct loop loop;
	/* in the directory, and with the abstract name; either may be missing */
	struct listener file, name;
	int lock_fd; /* of the directory */
	struct loop_source on_signal;
	int signal_fd;
	struct idle_exit idle_exit;
	bool ended;
	const struct client_hooks *hooks;
	struct list clients; /* all connections, also of observers and before HELLO */
	struct users users;
	struct list disconnecting;     /* to be freed at the end of this turn */
	struct list silent;	       /* before their first message, oldest first */
	struct loop_timer hello_timer; /* for the first of them */
	struct list refused;	       /* whose messages the kernel refuses to send for now */
	struct loop_timer send_again;  /* armed while there are any */
	struct client *by_slot[CTL_SLOT_MAX + 1];
	uint64_t slot_uids[CTL_SLOT_MAX + 1]; /* last user, plus 1; 0: none yet (daemon/slots.h) */
	uint64_t away_turn; /* of the loop, in which is_any_away was found out (slot_token.h) */
	bool is_any_away;
	struct counts counts;
	struct list kept_links; /* those that have their memory, the oldest first: daemon/links.h */
	unsigned kept_count;
	struct list memberships; /* of all multicast groups */
	struct list port_groups;
	unsigned port_group_count;
	struct ended_port ended_ports[ENDED_PORTS]; /* the last ones; daemon/ports.h */
	unsigned ended_port_next;
	struct loop_timer returned; /* daemon/port_store.h */
	struct cm *cm;		    /* connection management's, opaque here */
};

#endif
