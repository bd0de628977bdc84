/*
 * Outbox - what is still to be sent to one client that is slow to read.
 *
 * In:  messages with descriptors.
 * Out: the same on the client's socket, in order, as fast as the client takes them.
 *
 * Owner: the daemon's one thread. Never blocks; a client that lets too much pile up is reported,
 * and its owner cuts it off.
 */
#ifndef EVENT_OUTBOX_H
#define EVENT_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "event/fdref.h"

/* An honest client meets at most a link and a death per slot beside the socket's own buffer. */
#define OUTBOX_MAX 1024

struct outbox {
	struct list messages;
	unsigned count;
};

void outbox_init(struct outbox *o);

/* Drops what is queued. */
void outbox_fini(struct outbox *o);

/*
 * Sends at once, or queues if the socket is full; takes its own references. 0; -ENOBUFS: too much
 * is queued; -ETOOMANYREFS: too many descriptors are under way, nothing was sent or queued;
 * another -errno: the client is gone.
 */
int outbox_post(struct outbox *o, int sock, const void *message, size_t len,
		struct fdref *const *fds, unsigned fd_count);

/* The socket takes more. 0, also when some is left; -errno: the client is gone. */
int outbox_on_writable(struct outbox *o, int sock);

/* Whether these very bytes are queued already. */
bool outbox_holds(const struct outbox *o, const void *message, size_t len);

#endif
