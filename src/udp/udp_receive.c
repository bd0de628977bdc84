/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "base/fork_free.h"
#include "base/pace.h"
#include "base/syscall.h"
#include "packet/icrc.h"
#include "packet/packet.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

#define DATAGRAMS      8  /* of one recvmmsg */
#define PACKETS_A_CALL 64 /* then other sources of progress have a turn */
#define ALONE_ENOUGH   16 /* single datagrams in a row, then looks_further is false */
/*
 * Bytes from which GRO batches are fetched one by one: several would displace each other from the
 * cache.
 */
#define LONG_BATCH (16 << 10)

/*
 * So many bytes received, and the socket never empty between, are a backlog: of a large buffer a
 * sixteenth, so that a sender four times as fast as they are read has put less than half of the
 * buffer into it meanwhile. Of a small one it is much, and comes late: less could be one sender's
 * burst (base/pace.h).
 */
#define BACKLOG_BYTES(buffer)                                                                      \
	((buffer) / 16 > BACKLOG_LEAST_BYTES ? (buffer) / 16 : BACKLOG_LEAST_BYTES)
#define BACKLOG_LEAST_BYTES (2 * PACE_BURST_BYTES)

/* Room for TOS or traffic class, hop limit, flow label, segment size, and some more. */
#define CONTROL_BYTES 256

struct udp_inbox {
	struct mmsghdr messages[DATAGRAMS];
	struct iovec iov[DATAGRAMS];
	union gid_sockaddr from[DATAGRAMS];
	union {
		struct cmsghdr align;
		uint8_t bytes[CONTROL_BYTES];
	} control[DATAGRAMS];
	struct icrc_memo memo;
	uint8_t data[DATAGRAMS][UDP_DATAGRAM_MAX + 1];
};

/* The control messages of one datagram, or of one GRO batch. */
struct envelope {
	struct wire_flow flow;
	struct icrc_path path;
	size_t segment; /* bytes of each packet but the last */
};

/* Sets the lengths of the buffers again, which recvmsg has overwritten. */
static void reset_message(struct udp_inbox *in, int i)
{
	struct msghdr *h = &in->messages[i].msg_hdr;

	h->msg_namelen = sizeof(in->from[i]);
	h->msg_controllen = sizeof(in->control[i].bytes);
}

struct udp_inbox *udp_inbox_create(void)
{
	struct udp_inbox *in = malloc(sizeof(*in));

	if (!in)
		return NULL;
	memset(&in->memo, 0, sizeof(in->memo));
	for (int i = 0; i < DATAGRAMS; i++) {
		in->iov[i] = (struct iovec){ in->data[i], sizeof(in->data[i]) };
		in->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &in->from[i],
			.msg_iov = &in->iov[i],
			.msg_iovlen = 1,
			.msg_control = in->control[i].bytes,
		};
		reset_message(in, i);
	}
	return in;
}

void udp_inbox_destroy(struct udp_inbox *inbox)
{
	fork_free(inbox);
}

static int value_of(const struct cmsghdr *c)
{
	int value = 0;
	size_t bytes = c->cmsg_len - CMSG_LEN(0);

	/* IP_TOS is one byte, the others are four, ip(7). */
	if (bytes == 1)
		return *CMSG_DATA(c);
	if (bytes >= sizeof(value))
		memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

static void read_v4(const struct cmsghdr *c, struct wire_flow *flow)
{
	switch (c->cmsg_type) {
	case IP_TOS:
		flow->traffic_class = (uint8_t)value_of(c);
		break;
	case IP_TTL:
		flow->hop_limit = (uint8_t)value_of(c);
		break;
	}
}

static void read_v6(const struct cmsghdr *c, struct wire_flow *flow)
{
	switch (c->cmsg_type) {
	case IPV6_TCLASS:
		flow->traffic_class = (uint8_t)value_of(c);
		break;
	case IPV6_HOPLIMIT:
		flow->hop_limit = (uint8_t)value_of(c);
		break;
	case IPV6_FLOWINFO:
		flow->flow_label = ntohl((uint32_t)value_of(c)) & 0xfffff;
		break;
	}
}

static void open_envelope(struct wire_port *port, struct msghdr *h, size_t bytes,
			  struct envelope *e)
{
	const union gid_sockaddr *from = h->msg_name;

	memset(e, 0, sizeof(*e));
	e->segment = bytes;
	e->flow.port = port;
	/* The socket is bound to this address. */
	memcpy(e->flow.local, port->gid, WIRE_GID_BYTES);
	gid_from_sockaddr(&from->any, e->flow.remote);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			read_v4(c, &e->flow);
		else if (c->cmsg_level == IPPROTO_IPV6)
			read_v6(c, &e->flow);
		else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO && value_of(c) > 0)
			e->segment = (size_t)value_of(c);
	}
	if (gid_is_scoped(e->flow.remote) || gid_is_multicast(e->flow.local))
		e->flow.ifindex = port->ifindex;
	memcpy(e->path.source, e->flow.remote, WIRE_GID_BYTES);
	memcpy(e->path.destination, e->flow.local, WIRE_GID_BYTES);
	e->path.source_port = gid_sockaddr_port(from);
	e->path.destination_port = port->number;
}

/* A packet of so many bytes, ICRC included, is about to be delivered. */
static void count(struct wire_port *port, size_t length)
{
	struct arena_traffic *traffic = port->traffic;

	arena_traffic_add(
		port->is_group ? &traffic->received_multicast : &traffic->received_unicast, 1);
	arena_traffic_add(&traffic->received_bytes, length + port->ip_bytes);
}

/* Of the port's device, if that has an entry in the arena. */
static void count_damaged(const struct wire_port *port)
{
	if (port->device)
		counter_add_of_device(port->device - 1, COUNTER_RX_ICRC_ENCAPSULATED);
	else
		counter_add(COUNTER_RX_ICRC_ENCAPSULATED);
}

/* Whether the packet's ICRC is right. Counts it. */
static bool check(struct wire_port *port, const struct envelope *e, const uint8_t *bytes,
		  size_t length, uint16_t *id)
{
	if (!icrc_check(&port->inbox->memo, &e->path, bytes, length, id)) {
		count_damaged(port);
		damage_on_wrong(&port->damage, &e->flow);
		return false;
	}
	count(port, length);
	damage_on_right(&port->damage, &e->flow);
	return true;
}

static void set(struct wire_arrival *arrival, const uint8_t *bytes, size_t length)
{
	arrival->bytes = bytes;
	arrival->length = (uint32_t)(length - ICRC_BYTES);
}

static void pass(struct wire_arrival *arrival, bool more,
		 void (*receive)(const struct wire_arrival *arrival))
{
	if (!arrival->bytes)
		return;
	arrival->more = more;
	receive(arrival);
	arrival->bytes = NULL;
}

/* So many bytes came, in packets of `segment`. */
static bool is_backlogged(struct wire_port *port, size_t bytes, size_t segment)
{
	port->backlog_bytes += bytes + (bytes / segment + 1) * WIRE_PACKET_EXTRA;
	if (port->backlog_bytes < BACKLOG_BYTES(port->buffer_bytes))
		return false;
	port->backlog_bytes = 0;
	return true;
}

/*
 * Passes the packets of a datagram, or of a GRO batch, to `receive`, and drops those with a wrong
 * ICRC. Passes each only after it has found the next good one, so that arrival.more is exact.
 * Returns the number of packets, damaged ones included.
 *
 * An acknowledgement at the end of a batch of requests is passed first. It left with the answer to
 * what it acknowledges (transmit.c, piggyback_ack), and the program is to find its own request
 * completed no later than that answer: tgtd closes the connection otherwise.
 */
static unsigned deliver(struct wire_port *port, const struct mmsghdr *m, uint64_t now_ns,
			void (*receive)(const struct wire_arrival *arrival))
{
	struct msghdr h = m->msg_hdr;
	const uint8_t *bytes = h.msg_iov->iov_base;
	size_t left = m->msg_len;
	struct envelope e;
	struct wire_arrival ack, arrival = { .flow = &e.flow, .when_ns = now_ns };
	unsigned packets = 0;
	uint16_t id = 0;

	if (h.msg_flags & MSG_TRUNC || !left) {
		count_damaged(port);
		return 1;
	}
	open_envelope(port, &h, left, &e);
	arrival.backlogged = is_backlogged(port, left, e.segment);
	ack = arrival;
	if (packet_batch_ends_in_ack(bytes, left, e.segment)) {
		size_t length = left % e.segment;
		uint16_t last = (uint16_t)(left / e.segment);

		left -= length;
		if (check(port, &e, bytes + left, length, &last))
			set(&ack, bytes + left, length);
		packets++;
	}
	while (left) {
		size_t length = left < e.segment ? left : e.segment;

		/* The IPv4 identification increments from segment to segment, mostly from 0. */
		if (check(port, &e, bytes, length, &id)) {
			pass(&ack, true, receive);
			pass(&arrival, true, receive);
			set(&arrival, bytes, length);
		}
		id++;
		packets++;
		bytes += length;
		left -= length;
	}
	pass(&ack, false, receive);
	pass(&arrival, false, receive);
	return packets;
}

static int fetch_one(int fd, struct mmsghdr *message)
{
	ssize_t n = sys_recvmsg(fd, &message->msg_hdr, MSG_DONTWAIT);

	if (n < 0)
		return -1;
	message->msg_len = (unsigned)n;
	return 1;
}

/* Receives up to `max` datagrams. Returns how many; the caller calls reset_message for each. */
static int fetch(struct wire_port *port, unsigned max)
{
	struct udp_inbox *in = port->inbox;
	bool refused_before = false;

	for (;;) {
		int n = max == 1 ? fetch_one(port->fd, in->messages)
				 : sys_recvmmsg(port->fd, in->messages, max, MSG_DONTWAIT);

		if (n >= 0 || errno == EAGAIN)
			return n < 0 ? 0 : n;
		/* An ICMP error about an earlier send is ignored once. */
		if (errno != EINTR && refused_before)
			return 0;
		refused_before |= errno != EINTR;
	}
}

/*
 * Whether to look for more datagrams after a single one. When requests and responses alternate
 * there is none, and the system call delays the first. So after ALONE_ENOUGH of them only every
 * 16th call looks.
 */
static bool looks_further(const struct wire_port *port)
{
	return port->alone < ALONE_ENOUGH || port->alone % ALONE_ENOUGH == 0;
}

int udp_receive(struct wire_port *port, uint64_t now_ns,
		void (*receive)(const struct wire_arrival *arrival))
{
	unsigned packets = 0, max = 1;
	int datagrams = 0, n;
	bool drained;

	if (!lock_try(&port->receive_lock))
		return -EBUSY;
	do {
		n = fetch(port, max);
		for (int i = 0; i < n; i++) {
			packets += deliver(port, &port->inbox->messages[i], now_ns, receive);
			reset_message(port->inbox, i);
		}
		datagrams += n;
		drained = n < (int)max;
		if (drained)
			port->backlog_bytes = 0;
		if (max == 1 && n == 1)
			drained = !looks_further(port);
		max = n && port->inbox->messages[0].msg_len >= LONG_BATCH ? 1 : DATAGRAMS;
	} while (!drained && packets < PACKETS_A_CALL);
	if (datagrams == 1)
		port->alone++;
	else if (datagrams)
		port->alone = 0;
	lock_release(&port->receive_lock);
	return datagrams;
}
