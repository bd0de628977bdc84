/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Client - one connection of a process: its user, its messages, and its end.
 *
 * In:  a connected socket; its messages, of any content; the death of its process.
 * Out: calls of the hooks, which serve messages and free what belongs to a client; replies and
 *      notices.
 *
 * Owner: the daemon's one thread. Whatever a client sends, no more follows than that the daemon
 * disconnects this client. That may happen at any time. At the end of the loop's turn its slot,
 * links and memberships go, then it is freed.
 */
#ifndef DAEMON_CLIENT_H
#define DAEMON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "daemon/daemon.h"
#include "event/fdref.h"
#include "event/loop.h"
#include "event/send_queue.h"

struct cm_client;
struct fdmsg;
struct link;

enum client_role {
	CLIENT_CONNECTED = 1 << 0, /* connected, sent nothing yet */
	CLIENT_PROCESS = 1 << 1,   /* sent HELLO, has a slot */
	CLIENT_OBSERVER = 1 << 2,  /* sent OBSERVE, may list */
	CLIENT_CM_EARLY = 1 << 3,  /* sent CM_HELLO, returns its channels */
	CLIENT_CM = 1 << 4,	   /* sent BEGIN, manages connections */
};

struct client {
	struct daemon *daemon;
	enum client_role role;
	struct list in_daemon; /* in clients, or in disconnecting */
	bool disconnecting;
	bool has_hung_up; /* on_hang_up keeps it without its socket */
	int sock;
	struct loop_source on_socket;
	struct list in_silent; /* linked until the first message, */
	int64_t hello_ns;      /* which has to come before that */
	struct send_queue send_queue;
	struct list in_refused;	  /* linked while the kernel refuses to send what is first there, */
	int64_t refused_until_ns; /* until then; 0: it does not */
	bool change_waits;	  /* a notice of client_post_change is in the send queue */
	struct user *user;	  /* which counts it */
	pid_t pid;		  /* 0: in a pid namespace that the daemon does not see */
	uid_t uid;

	/* Of a CLIENT_PROCESS, CLIENT_CM_EARLY or CLIENT_CM. */
	int pid_fd; /* -1: only the socket shows its death */
	struct loop_source on_death;

	/* Of a CLIENT_CM_EARLY or CLIENT_CM only. */
	struct cm_client *cm;

	/* Of a CLIENT_PROCESS only; zero or NULL in the others. */
	unsigned slot;
	uint32_t directory; /* ctl_hello.directory */
	int64_t since_ns;
	char comm[CTL_COMM_BYTES];
	struct fdref *arena;
	struct fdref *wake;
	struct fdref *heap;
	struct link **links; /* by the slot of the other end */
	struct list memberships;
	unsigned membership_count;

	/* Of a CLIENT_OBSERVER only. */
	uint32_t list_type; /* CTL_LIST or CTL_CM_LIST; 0: no list is under way */
	unsigned list_next; /* the slot, or bucket of cm_space, that is next in it */
	uint32_t list_seq;
	struct counts_sum *sum; /* that it waits for, daemon/counts.h; NULL: for none */
	struct list in_sum;	/* linked while it waits */
	uint32_t sum_seq;
};

/* Calls of the layer above (verbatimd/server.c). */
struct client_hooks {
	/*
	 * Serves a message. NULL, or why the client is to be disconnected: then nothing was done.
	 */
	const char *(*on_message)(struct client *c, struct fdmsg *m);

	/* All that was queued for the client is sent. */
	void (*on_drained)(struct client *c);

	/*
	 * The other end of the socket is gone. False: the client is disconnected; true: it stays,
	 * until client_disconnect.
	 */
	bool (*on_hang_up)(struct client *c);

	/* The client is about to be freed: its peers get notices. */
	void (*on_death)(struct client *c);

	/* The same because the daemon ends: its peers get no notices. */
	void (*on_dismissal)(struct client *c);
};

/* At the start of the daemon. */
void client_init_all(struct daemon *d);

/* Takes over sock on success. 0 or -errno. */
int client_create(struct daemon *d, int sock, const struct ucred *peer);

/* From CLIENT_CONNECTED to another role, or from CLIENT_CM_EARLY to CLIENT_CM. */
void client_set_role(struct client *c, enum client_role role);

/* Sends or queues. 0; -ETOOMANYREFS: not sent; -ECONNRESET: the client is disconnecting. */
int client_post(struct client *c, const void *message, size_t len, struct fdref *const *fds,
		unsigned fd_count);

/* The same with a notice that says no more than the last one of its kind, unless that waits yet. */
void client_post_change(struct client *c, const void *message, size_t len);

/*
 * Disconnects the client at the end of this turn. reason: for the log, NULL if it left by itself.
 */
void client_disconnect(struct client *c, const char *reason);

/* Whether a may know of b: processes of different users never do. */
bool client_sees(const struct client *a, const struct client *b);

/* Whether a may know of this user's processes. */
bool client_sees_user(const struct client *a, uid_t uid);

/* The other end of its socket is closed, though what came before may not have been read yet. */
bool client_is_closed(const struct client *c);

/* The kernel says that its process has ended. */
bool client_has_ended(const struct client *c);

void client_free_disconnecting(struct daemon *d);

/* The daemon ends: clients see that their sockets are closed, and find the next daemon. */
void client_dismiss_all(struct daemon *d);

#endif
