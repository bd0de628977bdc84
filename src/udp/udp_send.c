/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fork_free.h"
#include "base/syscall.h"
#include "packet/icrc.h"
#include "udp/loss.h"
#include "udp/readable.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

/*
 * Payloads up to this size are copied after their headers, packet after packet. So the kernel gets
 * one iovec for a GSO batch instead of three for each packet, which saves more than the copy costs.
 * The ICRC is that of the copy: another thread may change the program's memory meanwhile, such as a
 * flag that a peer polls by READ.
 */
#define SMALL_BYTES   1024
#define PAD_MAX	      3
#define PACKET_IOVECS (1 + WIRE_PIECES + 1)

/* Room for TOS or traffic class, hop limit, flow label and segment size. */
#define CONTROL_BYTES (3 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t)))

/* The memory that a burst needs besides its packets; too large for a stack. */
struct udp_scratch {
	struct udp_scratch *next;
	struct mmsghdr messages[WIRE_BURST];
	unsigned after[WIRE_BURST]; /* index of the first packet after this message */
	bool is_batch[WIRE_BURST];
	struct iovec iov[WIRE_BURST * PACKET_IOVECS];
	uint8_t flat[WIRE_BURST * (WIRE_HEADER_BYTES + SMALL_BYTES + PAD_MAX + ICRC_BYTES)];
	size_t flat_bytes;
	struct icrc_memo memo;
	uint8_t trailer[WIRE_BURST][PAD_MAX + ICRC_BYTES];
	union {
		struct cmsghdr align;
		uint8_t bytes[CONTROL_BYTES];
	} control[WIRE_BURST];
};

/* One call of udp_send. */
struct burst {
	struct wire_port *port;
	struct wire_sender *sender;
	struct udp_scratch *scratch;
	const struct wire_packet *packets;
	unsigned count; /* packets up to the first whose payload cannot be read */
	uint64_t lost;	/* bit i: packet i is dropped, for a test */
	bool segments;	/* GSO may be tried */
	struct icrc_path path;
	union gid_sockaddr to;
	socklen_t to_len;
	uint8_t control[CONTROL_BYTES]; /* common to all messages: all but the segment size */
	size_t control_bytes;
};

static struct udp_scratch *take_scratch(struct wire_port *port)
{
	struct udp_scratch *s;

	lock_acquire(&port->scratch_lock);
	s = port->scratches;
	if (s)
		port->scratches = s->next;
	lock_release(&port->scratch_lock);
	if (s)
		return s;
	s = malloc(sizeof(*s));
	if (s)
		memset(&s->memo, 0, sizeof(s->memo));
	return s;
}

void udp_scratches_free(struct wire_port *port)
{
	for (struct udp_scratch *s = port->scratches, *next; s; s = next) {
		next = s->next;
		fork_free(s);
	}
}

/* Appends one control message. Returns the bytes used. */
static size_t put_control(uint8_t *control, size_t used, int level, int type, const void *value,
			  size_t bytes)
{
	struct cmsghdr c = { .cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type };

	memset(control + used, 0, CMSG_SPACE(bytes));
	memcpy(control + used, &c, sizeof(c));
	memcpy(control + used + CMSG_LEN(0), value, bytes);
	return used + CMSG_SPACE(bytes);
}

static int set_field(struct wire_sender *sender, int v4_option, int v6_option, int value)
{
	bool is_v4 = sender->port->is_v4;

	return setsockopt(sender->fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
			  is_v4 ? v4_option : v6_option, &value, sizeof(value));
}

/*
 * Sets the socket's TOS or traffic class and hop limit to those of the first unicast flow, so that
 * sends of equal flows need no control messages. A multicast flow does not count: IP_TTL is for
 * unicast only, ip(7).
 */
static void set_usual(struct wire_sender *sender, const struct wire_flow *flow)
{
	enum udp_usual none = USUAL_NONE;

	if (atomic_load_explicit(&sender->usual, memory_order_relaxed) != USUAL_NONE ||
	    !flow->hop_limit || gid_is_multicast(flow->remote) ||
	    !atomic_compare_exchange_strong(&sender->usual, &none, USUAL_SETTING))
		return;
	if (set_field(sender, IP_TOS, IPV6_TCLASS, flow->traffic_class) ||
	    set_field(sender, IP_TTL, IPV6_UNICAST_HOPS, flow->hop_limit))
		return; /* each send passes them */
	sender->usual_class = flow->traffic_class;
	sender->usual_hops = flow->hop_limit;
	atomic_store_explicit(&sender->usual, USUAL_KNOWN, memory_order_release);
}

/*
 * TOS or traffic class and hop limit, unless they are the socket's; the flow label. Returns the
 * bytes.
 */
static size_t make_control(const struct wire_sender *sender, const struct wire_flow *flow,
			   uint8_t *control)
{
	int tos = flow->traffic_class, hops = flow->hop_limit;
	bool is_v4 = sender->port->is_v4;
	int level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
	uint32_t label = htonl(flow->flow_label & 0xfffff);
	bool known = atomic_load_explicit(&sender->usual, memory_order_acquire) == USUAL_KNOWN;
	size_t used = 0;

	if (!known || tos != sender->usual_class)
		used = put_control(control, used, level, is_v4 ? IP_TOS : IPV6_TCLASS, &tos,
				   sizeof(tos));
	if (hops && (!known || hops != sender->usual_hops || gid_is_multicast(flow->remote)))
		used = put_control(control, used, level, is_v4 ? IP_TTL : IPV6_HOPLIMIT, &hops,
				   sizeof(hops));
	if (label && !is_v4)
		used = put_control(control, used, level, IPV6_FLOWINFO, &label, sizeof(label));
	return used;
}

static size_t packet_size(const struct wire_packet *p)
{
	return (size_t)p->header_bytes + p->payload_bytes + p->pad_bytes + ICRC_BYTES;
}

static void put_icrc(uint8_t *to, uint32_t icrc)
{
	for (int i = 0; i < ICRC_BYTES; i++)
		to[i] = (uint8_t)(icrc >> 8 * i);
}

/*
 * By words of the processor, of which the header was written just before in smaller pieces: it
 * gives a load what a store before it holds only if one store has all of it. A wider load, as
 * memcpy and compilers make, waits until the stores, and the payloads copied before them, are in
 * the cache.
 */
static void copy_header(uint8_t *to, const uint8_t *header)
{
	typedef uint64_t __attribute__((may_alias)) word;

	_Static_assert(WIRE_HEADER_BYTES % sizeof(word) == 0, "whole words");
	_Static_assert(offsetof(struct wire_packet, header) % sizeof(word) == 0, "aligned");
	for (unsigned i = 0; i < WIRE_HEADER_BYTES; i += sizeof(word)) {
		word w = __atomic_load_n((const word *)(header + i), __ATOMIC_RELAXED);

		memcpy(to + i, &w, sizeof(w));
	}
}

/* Copies header, payload, pad and ICRC into one iovec, or appends them to the previous one. */
static unsigned fill_small(struct burst *b, unsigned index, uint16_t id, struct iovec *iov,
			   bool may_join)
{
	const struct wire_packet *p = &b->packets[index];
	uint8_t *start = b->scratch->flat + b->scratch->flat_bytes, *end = start + p->header_bytes;

	copy_header(start, p->header);
	for (unsigned i = 0; i < p->pieces; i++) {
		memcpy(end, p->piece[i].iov_base, p->piece[i].iov_len);
		end += p->piece[i].iov_len;
	}
	memset(end, 0, PAD_MAX + 1);
	end += p->pad_bytes;
	put_icrc(end, icrc_compute(&b->scratch->memo, &b->path, id, start, (size_t)(end - start),
				   NULL, 0, 0));
	end += ICRC_BYTES;
	b->scratch->flat_bytes += (size_t)(end - start);
	if (may_join && (uint8_t *)iov[-1].iov_base + iov[-1].iov_len == start) {
		iov[-1].iov_len += (size_t)(end - start);
		return 0;
	}
	*iov = (struct iovec){ start, (size_t)(end - start) };
	return 1;
}

/*
 * Fills in the iovecs of a packet: a small one is copied; otherwise header, the program's memory,
 * and trailer have their own. Returns how many; 0: the packet was appended to the previous iovec.
 */
static unsigned fill_iovecs(struct burst *b, unsigned index, uint16_t id, struct iovec *iov)
{
	const struct wire_packet *p = &b->packets[index];
	uint8_t *trailer = b->scratch->trailer[index];
	unsigned n = 0;

	if (p->payload_bytes <= SMALL_BYTES)
		return fill_small(b, index, id, iov, id > 0);
	memset(trailer, 0, p->pad_bytes);
	put_icrc(trailer + p->pad_bytes,
		 icrc_compute(&b->scratch->memo, &b->path, id, p->header, p->header_bytes, p->piece,
			      p->pieces, p->pad_bytes));
	iov[n++] = (struct iovec){ (void *)p->header, p->header_bytes };
	for (unsigned i = 0; i < p->pieces; i++)
		iov[n++] = p->piece[i];
	iov[n++] = (struct iovec){ trailer, (size_t)p->pad_bytes + ICRC_BYTES };
	return n;
}

static bool is_lost(const struct burst *b, unsigned index)
{
	return b->lost >> index & 1;
}

/*
 * Builds message `m` from packet `first` on: as many packets as one GSO send takes, all of one size
 * except the last, which may be shorter (udp(7), UDP_SEGMENT). Adds the iovecs that it uses to
 * *iovecs. Returns the index of the packet after it.
 */
static unsigned lay_message(struct burst *b, unsigned m, unsigned first, unsigned *iovecs)
{
	struct udp_scratch *s = b->scratch;
	struct msghdr *h = &s->messages[m].msg_hdr;
	struct iovec *iov = s->iov + *iovecs;
	size_t segment = packet_size(&b->packets[first]), bytes = 0, size = segment;
	unsigned used = 0, packets = 0, i = first;

	while (i < b->count && size == segment) {
		if (is_lost(b, i)) {
			i++;
			continue;
		}
		size = packet_size(&b->packets[i]);
		if (packets && (!b->segments || packets == WIRE_GSO_PACKETS || size > segment ||
				bytes + size > WIRE_GSO_BYTES))
			break;
		used += fill_iovecs(b, i, (uint16_t)packets, iov + used);
		bytes += size;
		packets++;
		i++;
	}
	s->is_batch[m] = packets > 1;
	memcpy(s->control[m].bytes, b->control, b->control_bytes);
	*h = (struct msghdr){
		.msg_name = &b->to,
		.msg_namelen = b->to_len,
		.msg_iov = iov,
		.msg_iovlen = used,
		.msg_control = s->control[m].bytes,
		.msg_controllen = b->control_bytes,
	};
	if (packets > 1) {
		uint16_t bytes_each = (uint16_t)segment;

		h->msg_controllen = put_control(s->control[m].bytes, b->control_bytes, IPPROTO_UDP,
						UDP_SEGMENT, &bytes_each, sizeof(bytes_each));
	}
	*iovecs += used;
	return i;
}

/* Builds the messages of all packets from `first` on. Returns how many. */
static unsigned lay_out(struct burst *b, unsigned first)
{
	unsigned m = 0, iovecs = 0, i = first;

	b->scratch->flat_bytes = 0;
	for (;;) {
		while (i < b->count && is_lost(b, i))
			i++;
		/* Dropped packets count as sent with the message before them. */
		if (m)
			b->scratch->after[m - 1] = i;
		if (i >= b->count)
			return m;
		i = lay_message(b, m++, i, &iovecs);
	}
}

static enum wire_result result_of(int error)
{
	switch (error) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
		return WIRE_FULL;
	case EFAULT:
		return WIRE_FAULT;
	case EMSGSIZE:
		return WIRE_TOO_LONG;
	default: /* ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL, ENETDOWN, EPERM, EINVAL, ... */
		return WIRE_NO_ROUTE;
	}
}

/* Turns GSO off if the error tells that the kernel refused the batch for being one. */
static bool refuses_gso(struct burst *b, int error)
{
	if (error != EIO && error != EINVAL && error != ENOPROTOOPT && error != EOPNOTSUPP)
		return false;
	/* After EINVAL GSO stays on for other bursts: a packet may just exceed the path's MTU. */
	if (error != EINVAL)
		atomic_store_explicit(&b->port->segments, false, memory_order_relaxed);
	b->segments = false;
	return true;
}

static bool sends_gso(const struct wire_sender *sender)
{
	return !sender->shared &&
	       atomic_load_explicit(&sender->port->segments, memory_order_relaxed);
}

bool udp_sends_gso(const struct wire_flow *flow)
{
	return sends_gso(flow->sender);
}

/* sendmmsg, or the cheaper sendmsg for one message. */
static int call_send(int fd, struct mmsghdr *messages, unsigned count)
{
	if (count > 1)
		return sys_sendmmsg(fd, messages, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sys_sendmsg(fd, &messages->msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 1;
}

/* Sends all packets from *sent on, and advances *sent. */
static enum wire_result send_all(struct burst *b, unsigned *sent)
{
	struct udp_scratch *s = b->scratch;
	unsigned m = 0, messages = lay_out(b, *sent);
	bool refused_before = false;

	while (m < messages) {
		int n = call_send(b->sender->fd, s->messages + m, messages - m);

		if (n > 0) {
			m += (unsigned)n;
			*sent = s->after[m - 1];
			continue;
		}
		if (errno == EINTR)
			continue;
		/* A pending ICMP error about an earlier packet: this send only cleared it. */
		if (errno == ECONNREFUSED && !refused_before) {
			refused_before = true;
			continue;
		}
		if (!s->is_batch[m] || !refuses_gso(b, errno))
			return result_of(errno);
		messages = lay_out(b, *sent);
		m = 0;
	}
	*sent = b->count; /* includes dropped packets at the end */
	return WIRE_SENT;
}

/* The number of packets before the first whose payload cannot be read. */
static unsigned count_readable(const struct wire_packet *packets, unsigned count)
{
	struct readable known = { 0 };

	for (unsigned i = 0; i < count; i++) {
		for (unsigned p = 0; p < packets[i].pieces && !packets[i].pinned; p++) {
			if (!readable_check(&known, &packets[i].piece[p]))
				return i;
		}
	}
	return count;
}

/*
 * Gives the scratch back, and counts the first `sent` packets. The lock makes this thread the only
 * one that counts.
 */
static void end_burst(struct burst *b, unsigned sent, bool multicast)
{
	struct arena_traffic *traffic = b->port->traffic;
	uint64_t packets = 0, bytes = 0;

	for (unsigned i = 0; i < sent; i++) {
		if (is_lost(b, i))
			continue;
		packets++;
		bytes += packet_size(&b->packets[i]) + b->port->ip_bytes;
	}
	lock_acquire(&b->port->scratch_lock);
	b->scratch->next = b->port->scratches;
	b->port->scratches = b->scratch;
	if (packets) {
		arena_traffic_add(multicast ? &traffic->sent_multicast : &traffic->sent_unicast,
				  packets);
		arena_traffic_add(&traffic->sent_bytes, bytes);
	}
	lock_release(&b->port->scratch_lock);
}

enum wire_result udp_send(const struct wire_flow *flow, const struct wire_packet *packets,
			  unsigned count, unsigned *sent)
{
	struct wire_sender *sender = flow->sender;
	struct wire_port *port = sender->port;
	struct burst b = {
		.port = port,
		.sender = sender,
		.packets = packets,
		.count = count_readable(packets, count),
		.segments = !flow->one_by_one && sends_gso(sender),
		.path = { .source_port = sender->number, .destination_port = WIRE_UDP_PORT },
	};
	enum wire_result result;

	*sent = 0;
	if (gid_is_v4(flow->remote) != port->is_v4)
		return WIRE_NO_ROUTE;
	b.scratch = take_scratch(port);
	if (!b.scratch)
		return WIRE_FULL;
	b.lost = loss_choose(b.count);
	b.to_len = gid_to_sockaddr(flow->remote, flow->ifindex ? flow->ifindex : port->ifindex,
				   WIRE_UDP_PORT, &b.to);
	memcpy(b.path.source, port->gid, WIRE_GID_BYTES);
	memcpy(b.path.destination, flow->remote, WIRE_GID_BYTES);
	set_usual(sender, flow);
	b.control_bytes = make_control(sender, flow, b.control);
	result = send_all(&b, sent);
	end_burst(&b, *sent, gid_is_multicast(flow->remote));
	return result == WIRE_SENT && b.count < count ? WIRE_FAULT : result;
}
