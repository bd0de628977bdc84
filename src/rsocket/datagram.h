/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram - a datagram rsocket: a UDP socket, whose number it has, and a UD QP on each local
 * address in use.
 *
 * The first datagram to an address goes over the UDP sockets and tells the peer our QP; the answer
 * names the peer's QP (resolve.h). From then on datagrams go between the QPs (ud.h). When nothing comes
 * back, one a second goes over UDP again, which finds a restarted peer. Datagrams that are too long for
 * a QP always go over UDP.
 *
 * In:  calls of any thread, which also receive. Out: datagrams, to the UDP socket or a QP.
 *
 * One lock guards it all, held for a copy of a datagram at most.
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
	DATAGRAM_PEERS_MAX = 1024, /* those that were used longest ago are forgotten */
	DATAGRAM_BUCKETS = 256,
	DATAGRAM_UDP_MAX = 65535,
};

struct datagram {
	struct rsocket base;
	int family;
	int epoll; /* the UDP socket and the completion channels */

	/* What a QP will be like; fixed once there is one */
	uint32_t receive_bytes, send_bytes, sq_size, rq_size, inline_bytes;

	struct lock lock; /* guards all below */
	struct list waiters;
	bool armed;
	bool shut_send, shut_receive;
	bool connected;
	union socket_name peer; /* if connected */
	unsigned looks;		/* in vain, at the UDP socket */

	struct list ends;    /* of ud.c */
	struct list arrived; /* datagrams in receives of QPs */
	struct list peers;   /* of resolve.c, those used last at the end */
	struct list buckets[DATAGRAM_BUCKETS];
	unsigned peer_count;

	/* A datagram that came over UDP and has not been read; 0: none */
	size_t udp_length; /* with its header, which is valid */
	union socket_name udp_from;
	uint8_t udp_buffer[DATAGRAM_UDP_MAX];
};

int datagram_create(int family, struct datagram **datagram);

static inline struct datagram *datagram_of(struct rsocket *rs)
{
	return container_of(rs, struct datagram, base);
}

int datagram_bind(struct datagram *d, const struct sockaddr *addr, socklen_t length);
int datagram_connect(struct datagram *d, const struct sockaddr *addr, socklen_t length);

/* The number of bytes, or -errno. addr NULL: to the peer that it is connected to. */
ssize_t datagram_send(struct datagram *d, struct pieces *pieces, int flags,
		      const struct sockaddr *addr, socklen_t length) EXCLUDES(d->lock);

/* The same; addr may be NULL. `truncated`: the datagram was longer. */
ssize_t datagram_receive(struct datagram *d, struct pieces *pieces, int flags,
			 union socket_name *addr, bool *truncated) EXCLUDES(d->lock);

int datagram_shutdown(struct datagram *d, int how);

/* What was sent is on its way, or a second has passed. */
void datagram_close(struct datagram *d) EXCLUDES(d->lock);

int datagram_set_option(struct datagram *d, int level, int name, const void *value,
			socklen_t length);
int datagram_get_option(struct datagram *d, int level, int name, void *value, socklen_t *length);

/* As those of stream.h. */
short datagram_poll(struct datagram *d, short events) REQUIRES(d->lock);
int datagram_arm(struct datagram *d, struct pollfd fds[1]) REQUIRES(d->lock);
void datagram_disarm(struct datagram *d) REQUIRES(d->lock);

socklen_t name_length(const union socket_name *address);
bool name_equal(const union socket_name *a, const union socket_name *b);

#endif
