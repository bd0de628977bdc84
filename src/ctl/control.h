/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control connection - the socket to verbatimd, and what this process has of it.
 *
 * exchange.c has the requests on it, hello.c how it begins, notices.c the notices, kept_ports.c the
 * ports; client.c has the calls.
 */
#ifndef CTL_CONTROL_H
#define CTL_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/dial.h"
#include "ctl/protocol.h"

/* Set in the sequence number of a request whose reply is a notice. */
#define CONTROL_ASKED 0x80000000u

struct queued_notice; /* notices.c */
struct kept_port;     /* kept_ports.c */

#define ASKED_PORTS 64 /* questions for ports that wait for answers; older ones are forgotten */

struct asked_port {
	uint32_t seq;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

struct ctl_client {
	int arena_fd; /* the caller's */
	int wake_fd;  /* the caller's */
	int heap_fd;  /* the caller's */
	int token_fd; /* while it is open, no other process gets the slot */
	unsigned slot;
	uint32_t directory;    /* as of ctl_hello */
	enum dial_which which; /* the daemon that this is a connection to */
	char comm[CTL_COMM_BYTES];

	/* Guards all below, and reading from and writing to sock. */
	pthread_mutex_t lock;
	int sock;
	bool down;	 /* the connection is lost */
	int64_t hung_ns; /* when a request had no answer in time; 0: never. Under the lock. */
	bool reconnecting;
	pid_t daemon_pid;
	uint32_t seq; /* of the last request; never 0 */
	struct kept_port *ports;
	/* Some kept ports were not given to this daemon yet. Written under the lock. */
	atomic_bool owes_ports;
	struct asked_port asked_ports[ASKED_PORTS];
	unsigned next_asked;
	struct queued_notice *notices;
	struct queued_notice **notices_end;
};

/* The number of the next request; never 0. Caller holds lock. */
uint32_t control_next_seq(struct ctl_client *c);

/*
 * Caller holds lock. The connection is of no use any more. Hangs up, so that the daemon does not
 * take this process for connected, and whoever waits for ctl_fd wakes.
 */
void control_lose(struct ctl_client *c);

/*
 * Caller holds lock. Sends a request, with fd along unless it is -1; does not wait. Its reply comes
 * as a notice, or is dropped if there is none of its kind. 0; -ENOTCONN; else the send is delayed
 * (fdmsg_is_delayed).
 */
int control_send(struct ctl_client *c, struct ctl_header *request, size_t len, int fd);

/*
 * Releases lock. A thread that called ctl_next_notice meanwhile got nothing, and ctl_fd is no
 * longer readable. So this writes the wake eventfd if a notice was queued.
 */
void control_release(struct ctl_client *c);

#endif
