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

#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/lock.h"
#include "rsocket/protocol.h"
#include "rsocket/table.h"
#include "rsocket/transfer.h"

union socket_name {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

enum {
	DATAGRAM_PEERS_MAX = 1024, /* beyond, the least recently used is evicted */
	DATAGRAM_BUCKETS = 256,
	DATAGRAM_UDP_MAX = 65535,
};

struct datagram {
	struct rsocket base;
	int family;
	int epoll; /* the UDP socket and the completion channels */

	/* Attributes of QPs to be created; fixed once there is one */
	uint32_t receive_bytes, send_bytes, sq_size, rq_size, inline_bytes;

	struct lock lock; /* guards all below */
	struct list waiters;
	bool armed;
	bool shut_send, shut_receive;
	bool connected;
	union socket_name peer; /* if connected */
	unsigned looks;		/* polls since the last that found something */

	struct list ends;    /* struct ud_end */
	struct list arrived; /* struct ud_received: datagrams that the program has not read */
	struct list peers;   /* struct peer, most recently used last */
	struct list buckets[DATAGRAM_BUCKETS];
	unsigned peer_count;

	/* The datagram that came over UDP and has not been read */
	size_t udp_length; /* with its header, which was checked; 0: there is none */
	union socket_name udp_from;
	uint8_t udp_buffer[DATAGRAM_UDP_MAX];
};

/* With one reference, and in no table yet. `family` is AF_INET or AF_INET6. 0 or -errno. */
int datagram_create(int family, struct datagram **datagram);

static inline struct datagram *datagram_of(struct rsocket *rs)
{
	return container_of(rs, struct datagram, base);
}

/* bind() and connect() of the UDP socket: 0 or -errno. */
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

socklen_t name_length(const union socket_name *address);
bool name_equal(const union socket_name *a, const union socket_name *b);

#endif
