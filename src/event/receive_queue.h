/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queue - receives a client's messages and their descriptors.
 *
 * In:  a socket that a client may write to.
 * Out: its messages or bytes. Descriptors that the caller does not take out of a message go to the
 *      close pool.
 *
 * If the process may open no more files, recvmsg(2) closes a descriptor, and the thread waits for
 * that. So the daemon reserves as many as a message can have, above its own limit
 * (receive_queue_limit_fds). A message whose descriptors used the reserve counts as a message that
 * has lost them.
 *
 * Owner: the daemon's one thread. Never blocks.
 */
#ifndef EVENT_RECEIVE_QUEUE_H
#define EVENT_RECEIVE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ctl/fdmsg.h"

/* Once, at the start: sets the limit of descriptors to the hard limit less the reserve. */
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
