/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client state - what the files of the control client share: the connection and its requests.
 *
 * client.c has the connection and the requests, hello.c how it begins, notices.c the notices,
 * ports.c the ports.
 */
#ifndef CTL_CLIENT_STATE_H
#define CTL_CLIENT_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "ctl/client.h"
#include "ctl/dial.h"
#include "ctl/fdmsg.h"

/* In the sequence number of a request whose reply is a notice. */
#define ASKED 0x80000000u

struct queued_notice {
	struct queued_notice *next;
	struct ctl_notice notice;
};

struct kept_port; /* ports.c */

#define ASKED_PORTS 64 /* whose answers are expected; older ones are forgotten */

struct asked_port {
	uint32_t seq;
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

struct ctl_client {
	int arena_fd; /* the caller's */
	int wake_fd;  /* the caller's */
	int heap_fd;  /* the caller's */
	int token_fd; /* keeps the slot ours */
	unsigned slot;
	enum dial_which which; /* of the daemon that gave the slot */
	char comm[CTL_COMM_BYTES];

	/* Guards all below, and reading from and writing to sock. */
	pthread_mutex_t lock;
	int sock;
	bool down; /* sock is of no more use */
	bool reconnecting;
	pid_t daemon_pid;
	uint32_t seq; /* of the last request; never 0 */
	struct kept_port *ports;
	bool owes_ports; /* some were not given to this daemon yet */
	struct asked_port asked_ports[ASKED_PORTS];
	unsigned next_asked;
	struct queued_notice *notices;
	struct queued_notice **notices_end;
};

/*
 * Takes lock. Sends a request and waits for its reply, of the given type and length; keeps the
 * notices that come in between. 0, -ENOTCONN, -ETIMEDOUT. The descriptors in the reply are the
 * caller's.
 */
int client_request(struct ctl_client *c, struct ctl_header *request, size_t len,
		   enum ctl_type reply_type, size_t reply_len, struct fdmsg *reply);

/*
 * Releases lock. A thread that called ctl_next_notice meanwhile got nothing, and ctl_fd is not
 * readable any more: the wake eventfd tells it of notices that were read in between.
 */
void client_release(struct ctl_client *c);

/*
 * Caller holds lock. Sends a request; does not wait. Its reply comes as a notice, or is dropped if
 * there is none of its kind. 0, -EAGAIN the socket is full, -ENOTCONN.
 */
int client_ask(struct ctl_client *c, struct ctl_header *request, size_t len);

/* The same, with fd along unless it is -1, and ahead of the ports that are owed (ports_return). */
int client_send_request(struct ctl_client *c, struct ctl_header *request, size_t len, int fd);

#endif
