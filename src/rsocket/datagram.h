/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram - a datagram rsocket: a UDP socket, and a UD QP on each local address in use.
 *
 *   datagram to a peer                      goes over
 *   the first                               UDP, with the local QP number; the peer answers with
 *                                           its own (resolve.h)
 *   the next                                the UD QPs (ud.h)
 *   one a second while nothing comes back   UDP, which finds a restarted peer
 *   longer than the MTU of the QP           UDP
 *
 * In:  calls of any thread, which also receive. Out: datagrams, to the UDP socket or a QP.
 *
 * The descriptor number is that of the UDP socket. One lock guards the rsocket; no thread holds it
 * for longer than the copy of a datagram.
 */
#ifndef RSOCKET_DATAGRAM_H
#define RSOCKET_DATAGRAM_H

#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "rsocket/datagram_state.h"
#include "rsocket/pieces.h"

int datagram_create(int family, struct datagram **datagram);

int datagram_bind(struct datagram *d, const struct sockaddr *addr, socklen_t length);
int datagram_connect(struct datagram *d, const struct sockaddr *addr, socklen_t length);

/*
 * Sends one datagram: its bytes, or -errno. `addr` NULL sends to the connected peer, -EDESTADDRREQ
 * without one. -EAGAIN with MSG_DONTWAIT or O_NONBLOCK; -EPIPE after rshutdown.
 */
ssize_t datagram_send(struct datagram *d, struct pieces *pieces, int flags,
		      const struct sockaddr *addr, socklen_t length) EXCLUDES(d->lock);

/*
 * Receives one datagram: its bytes, 0 after rshutdown, or -errno. Writes the sender to `addr`
 * unless that is NULL. `truncated`: the datagram was longer than `pieces`, and the rest is lost.
 */
ssize_t datagram_receive(struct datagram *d, struct pieces *pieces, int flags,
			 union socket_name *addr, bool *truncated) EXCLUDES(d->lock);

/* 0, -EINVAL or -ENOTCONN. */
int datagram_shutdown(struct datagram *d, int how);

/*
 * Waits until all sends have completed, for a second at most, and makes waiting calls return EBADF.
 */
void datagram_close(struct datagram *d) EXCLUDES(d->lock);

/*
 * rsetsockopt and rgetsockopt: options other than SOL_RDMA are those of the UDP socket. 0 or
 * -errno.
 */
int datagram_set_option(struct datagram *d, int level, int name, const void *value,
			socklen_t length);
int datagram_get_option(struct datagram *d, int level, int name, void *value, socklen_t *length);

/* stream_poll, stream_arm and stream_disarm for a datagram rsocket. */
short datagram_poll(struct datagram *d, short events) REQUIRES(d->lock);
int datagram_arm(struct datagram *d, struct pollfd fds[1]) REQUIRES(d->lock);
void datagram_disarm(struct datagram *d) REQUIRES(d->lock);

#endif
