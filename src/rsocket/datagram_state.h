/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram state - the state of a datagram rsocket, which datagram.c, resolve.c and ud.c share.
 */
#ifndef RSOCKET_DATAGRAM_STATE_H
#define RSOCKET_DATAGRAM_STATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/lock.h"
#include "rsocket/table.h"

union socket_name {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline socklen_t name_length(const union socket_name *address)
{
	return address->sa.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

static inline bool name_equal(const union socket_name *a, const union socket_name *b)
{
	if (a->sa.sa_family != b->sa.sa_family || a->v4.sin_port != b->v4.sin_port)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

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
static inline struct datagram *datagram_of(struct rsocket *rs)
{
	return container_of(rs, struct datagram, base);
}

/* bind() and connect() of the UDP socket: 0 or -errno. */
#endif
