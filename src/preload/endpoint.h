/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoint - the sockets that programs have opened for NETLINK_RDMA, and the answers that wait in
 * them.
 *
 * In:  datagrams that a program sends.
 * Out: answers (preload/nldev.h) in the socket's own receive queue.
 *
 * The socket is one of NETLINK_USERSOCK, which needs no privilege and which the kernel does not
 * answer; bind, poll, options and all that receives are the kernel's. An answer is sent from the
 * socket to itself: it is connected to its own port, so the kernel refuses what others send there.
 * What the receive queue has no room for waits here until some of it has been received.
 *
 * A descriptor is recognized by its number and inode, so close need not be interposed; a duplicate
 * of another number can receive, but is not answered. Processes after a fork share the receive
 * queue; each has what waited of its own. Any thread. The lock is not held while an answer is made.
 */
#ifndef PRELOAD_ENDPOINT_H
#define PRELOAD_ENDPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Descriptors from here on are refused. iproute2's rdma leaves one open for each of its requests.
 */
#define ENDPOINT_NUMBERS 16384

/* False: this process has opened none, and no descriptor needs to be examined. */
extern atomic_bool endpoint_any;

/* socket(2) with this type and its flags: a descriptor, or -errno (-EMFILE: ENDPOINT_NUMBERS). */
int endpoint_open(int type);

/* A cheap test first, then fstat. */
bool endpoint_is(int fd);

/* Takes a datagram of an endpoint, and sends the answers. Its length, or -errno. May block. */
ssize_t endpoint_send(int fd, const struct msghdr *datagram);

/* Sends what fits of the answers that wait. Before and after each receive. */
void endpoint_refill(int fd);

#endif
