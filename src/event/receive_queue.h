/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queue - takes what a client sent out of its socket, with the descriptors that came along.
 *
 * In:  a socket that a client may write to.
 * Out: its messages or bytes. Descriptors that the caller does not take out of a message go to the
 *      close pool.
 *
 * If there is no room for a descriptor, recvmsg(2) closes it, and the thread waits for that. So
 * there is always room for as many as a message can have, above the limit of what else this process
 * may open (receive_queue_limit_fds). A message whose descriptors came to lie there counts as one
 * that has lost them.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef EVENT_RECEIVE_QUEUE_H
#define EVENT_RECEIVE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ctl/fdmsg.h"

/*
 * Once, at the start: sets the limit of descriptors to what this process may have, less that room.
 */
void receive_queue_limit_fds(void);

/* The next message. As fdmsg_recv, but *out may be written in any case. */
int receive_queue_take(uid_t uid, int sock, struct fdmsg *out);

/* Closes the descriptors that are left in m. */
void receive_queue_close_fds(uid_t uid, struct fdmsg *m);

/* The next bytes of a unix socket. How many, or -errno. */
ssize_t receive_queue_take_bytes(uid_t uid, int sock, void *bytes, size_t size);

/* Whether a client's descriptor is a unix socket of this type; an eventfd, or the like. */
bool receive_queue_is_unix(int fd, int type);
bool receive_queue_is_anonymous(int fd);

#endif
