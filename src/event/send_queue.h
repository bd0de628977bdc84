/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queue - messages that wait because a client is slow to read.
 *
 * In:  messages with descriptors.
 * Out: the same on the client's socket, in order, as fast as the client takes them.
 *
 * Owner: the daemon's one thread. Never blocks. If too many messages are queued, it returns an
 * error, and the caller disconnects the client.
 */
#ifndef EVENT_SEND_QUEUE_H
#define EVENT_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "event/fdref.h"

/*
 * A client that is stopped for a while may have a link and a death per slot waiting, and some
 * answers. The socket's own buffer holds few of them.
 */
#define SEND_QUEUE_MAX (2 * CTL_SLOT_MAX + 64)

struct send_queue {
	struct list messages;
	unsigned count;
};

void send_queue_init(struct send_queue *q);

/* Drops what is queued. */
void send_queue_fini(struct send_queue *q);

/*
 * Sends at once, or queues if the socket is full or the kernel short of memory; takes its own
 * references. 0; -ENOBUFS: too much is queued; -ETOOMANYREFS: too many descriptors are under way,
 * nothing was sent or queued; another -errno: the client is gone.
 */
int send_queue_post(struct send_queue *q, int sock, const void *message, size_t len,
		    struct fdref *const *fds, unsigned fd_count);

/*
 * The socket takes more. 0, also when some is left, as it is full; fdmsg_is_delayed: the kernel
 * refuses to send the first one for now; another -errno: the client is gone.
 */
int send_queue_on_writable(struct send_queue *q, int sock);

#endif
