/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/resolve.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cause.h"
#include "rsocket/wait.h"

#define BELIEVED_NS  UINT64_C(1000000000) /* after that the next datagram goes over UDP again */
#define MESSAGES_MAX 64			  /* that one resolve_poll reads */
#define QPN_MASK     0xffffff

/* Peers */

static struct list *bucket_of(struct datagram *d, const union socket_name *address)
{
	const uint8_t *bytes;
	uint32_t hash = 2166136261u;
	size_t length;

	if (address->sa.sa_family == AF_INET) {
		bytes = (const uint8_t *)&address->v4.sin_port;
		length = 6;
	} else {
		bytes = (const uint8_t *)&address->v6.sin6_addr;
		length = 16;
		hash ^= address->v6.sin6_port;
	}
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return &d->buckets[hash % DATAGRAM_BUCKETS];
}

static struct peer *find(struct datagram *d, const union socket_name *address) REQUIRES(d->lock)
{
	struct list *bucket = bucket_of(d, address), *pos;

	list_for_each(pos, bucket) {
		struct peer *peer = list_entry(pos, struct peer, link);

		if (name_equal(&peer->address, address))
			return peer;
	}
	return NULL;
}

static void forget(struct datagram *d, struct peer *peer)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed one is in no list */
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	list_del(&peer->link);
	list_del(&peer->recent);
	d->peer_count--;
	free(peer);
}

void resolve_free_all(struct datagram *d)
{
	while (!list_empty(&d->peers))
		forget(d, list_entry(d->peers.next, struct peer, recent));
}

/*
 * Evicts the least recently used peer if there are too many. -EAGAIN: sends may use its AH still.
 */
static int make_room(struct datagram *d) REQUIRES(d->lock)
{
	if (d->peer_count < DATAGRAM_PEERS_MAX)
		return 0;
	if (ud_poll(d)) /* what has come is for others */
		wait_kick(&d->waiters);
	if (!ud_all_done(d))
		return -EAGAIN;
	forget(d, list_entry(d->peers.next, struct peer, recent));
	return 0;
}

/*
 * The local address of the route to `address`. Uses system calls, which rspreload does not
 * interpose.
 */
static int route_to(const union socket_name *address, union socket_name *local)
{
	socklen_t length = sizeof(*local);
	int fd = (int)syscall(SYS_socket, address->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_connect, fd, address, name_length(address)) ||
	    syscall(SYS_getsockname, fd, local, &length))
		rc = -errno;
	syscall(SYS_close, fd);
	return rc;
}

static bool is_any(const union socket_name *address)
{
	return address->sa.sa_family == AF_INET ? address->v4.sin_addr.s_addr == INADDR_ANY
						: IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

/*
 * The local address towards the peer, with the port of the UDP socket; binds the socket if need be.
 */
static int local_address(struct datagram *d, const union socket_name *address,
			 union socket_name *local)
{
	union socket_name bound = { .sa.sa_family = (sa_family_t)d->family };
	socklen_t length = sizeof(bound);
	int rc;

	if (getsockname(d->base.fd, &bound.sa, &length))
		return -errno;
	if (!bound.v4.sin_port) {
		bound.sa.sa_family = (sa_family_t)d->family;
		if (bind(d->base.fd, &bound.sa, name_length(&bound)))
			return -errno;
		length = sizeof(bound);
		if (getsockname(d->base.fd, &bound.sa, &length))
			return -errno;
	}
	*local = bound;
	if (!is_any(&bound))
		return 0;
	rc = route_to(address, local);
	local->v4.sin_port = bound.v4.sin_port; /* has the same offset in sockaddr_in6 */
	return rc;
}

int resolve_get(struct datagram *d, const union socket_name *address, struct peer **peer)
{
	union socket_name local;
	struct ud_end *end;
	int rc;

	*peer = find(d, address);
	if (*peer) {
		list_del(&(*peer)->recent);
		list_add_tail(&d->peers, &(*peer)->recent);
		return 0;
	}
	rc = make_room(d);
	if (!rc)
		rc = local_address(d, address, &local);
	if (!rc)
		rc = ud_get(d, &local, &end);
	if (rc)
		return rc;
	*peer = calloc(1, sizeof(**peer));
	if (!*peer)
		return -ENOMEM;
	(*peer)->address = *address;
	(*peer)->end = end;
	list_add_tail(bucket_of(d, address), &(*peer)->link);
	list_add_tail(&d->peers, &(*peer)->recent);
	d->peer_count++;
	return 0;
}

bool resolve_is_known(struct datagram *d, struct peer *peer)
{
	uint64_t now;

	if (!peer->ah)
		return false;
	now = clock_now_ns();
	if (now - peer->heard_ns < BELIEVED_NS)
		return true;
	peer->heard_ns = now; /* this datagram asks; the following do not wait for the answer */
	return false;
}

void resolve_heard(struct datagram *d, const union socket_name *address)
{
	struct peer *peer = find(d, address);

	if (peer)
		peer->heard_ns = clock_now_ns();
}

/* Messages */

static void make_header(const struct ud_end *end, enum operation operation,
			struct udp_header *header)
{
	*header = (struct udp_header){
		.tag = htobe32(UDP_HEADER_TAG),
		.version = end->header.version,
		.operation = (uint8_t)operation,
		.qpn = htobe32(end->qp->qp_num & QPN_MASK),
	};
	if (header->version == 4) {
		header->length = UDP_HEADER_IPV4;
		header->addr.ipv4 = end->header.addr.ipv4;
	} else {
		header->length = UDP_HEADER_IPV6;
		memcpy(header->addr.ipv6, end->header.addr.ipv6.addr, 16);
	}
}

enum { PIECES_MAX = 1024 };

ssize_t resolve_send(struct datagram *d, struct peer *peer, enum operation operation,
		     struct pieces *pieces, size_t length, bool nonblock)
{
	struct iovec iov[PIECES_MAX];
	struct udp_header header;
	struct msghdr msg = {
		.msg_name = &peer->address,
		.msg_namelen = name_length(&peer->address),
		.msg_iov = iov,
		.msg_iovlen = 1,
	};
	ssize_t sent;

	make_header(peer->end, operation, &header);
	iov[0] = (struct iovec){ &header, header.length };
	for (size_t i = 0; length && i < pieces->count; i++) {
		if (msg.msg_iovlen == PIECES_MAX)
			return -EMSGSIZE;
		iov[msg.msg_iovlen++] = pieces->iov[i];
	}
	sent = sendmsg(d->base.fd, &msg, MSG_NOSIGNAL | (nonblock ? MSG_DONTWAIT : 0));
	if (sent < 0)
		return -errno;
	return sent > header.length ? sent - header.length : 0;
}

static bool is_message(const struct udp_header *header, size_t length, int family)
{
	if (length < UDP_HEADER_IPV4 || header->tag != htobe32(UDP_HEADER_TAG))
		return false;
	if (family == AF_INET)
		return header->version == 4 && header->length == UDP_HEADER_IPV4;
	return header->version == 6 && header->length == UDP_HEADER_IPV6 &&
	       length >= UDP_HEADER_IPV6;
}

static void learn(struct datagram *d, const struct udp_header *header,
		  const union socket_name *from) REQUIRES(d->lock)
{
	struct peer *peer;

	if (resolve_get(d, from, &peer))
		return;
	if (!peer->ah)
		peer->ah = ud_address(peer->end, from);
	peer->qpn = be32toh(header->qpn) & QPN_MASK;
	peer->heard_ns = clock_now_ns();
	if (header->operation == OP_DATA)
		resolve_send(d, peer, OP_CONTROL, NULL, 0, true);
}

/* Handles the message in d->udp_buffer. True: it carries a datagram. */
static bool on_message(struct datagram *d, size_t length) REQUIRES(d->lock)
{
	const struct udp_header *header = (const struct udp_header *)d->udp_buffer;

	if (!is_message(header, length, d->udp_from.sa.sa_family)) {
		cause_report(CAUSE_RSOCKET_DATAGRAM, 0, "%zu bytes by UDP", length);
		return false;
	}
	learn(d, header, &d->udp_from);
	return header->operation == OP_DATA;
}

bool resolve_poll(struct datagram *d)
{
	for (int i = 0; i < MESSAGES_MAX && !d->udp_length; i++) {
		socklen_t from_length = sizeof(d->udp_from);
		ssize_t length;

		memset(&d->udp_from, 0, sizeof(d->udp_from));
		length = recvfrom(d->base.fd, d->udp_buffer, sizeof(d->udp_buffer), MSG_DONTWAIT,
				  &d->udp_from.sa, &from_length);
		if (length < 0 && errno == ECONNREFUSED)
			continue; /* an ICMP error about an earlier send */
		if (length < 0)
			break;
		if (on_message(d, (size_t)length))
			d->udp_length = (size_t)length;
	}
	return d->udp_length != 0;
}

const uint8_t *resolve_payload(const struct datagram *d, size_t *length)
{
	const struct udp_header *header = (const struct udp_header *)d->udp_buffer;

	*length = d->udp_length - header->length;
	return d->udp_buffer + header->length;
}
