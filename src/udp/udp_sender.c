/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/fork_free.h"
#include "base/source_port.h"
#include "base/uncancelled.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#ifndef IPV6_AUTOFLOWLABEL
#define IPV6_AUTOFLOWLABEL 70
#endif

/* Senders of a process: at most SENDERS_MAX, and at most a quarter of RLIMIT_NOFILE. */
#define SENDERS_MAX	  256
#define DESCRIPTORS_SHARE 4

#define QPNS (1u << 24)

static _Atomic uint32_t open_senders;
static atomic_bool share_reported;

static uint32_t senders_limit(void)
{
	struct rlimit descriptors;

	if (getrlimit(RLIMIT_NOFILE, &descriptors) ||
	    descriptors.rlim_cur / DESCRIPTORS_SHARE > SENDERS_MAX)
		return SENDERS_MAX;
	return (uint32_t)descriptors.rlim_cur / DESCRIPTORS_SHARE;
}

/* Sets options of a socket that sends. Older kernels lack some of them, so errors are ignored. */
static void set_options(const struct wire_port *port, int fd)
{
	struct ip_mreqn leaves = { .imr_ifindex = (int)port->ifindex };

	udp_set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	if (port->is_v4) {
		udp_set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, port->loops_multicast);
		if (port->ifindex)
			setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &leaves, sizeof(leaves));
	} else {
		udp_set(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
		udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, port->loops_multicast);
		if (port->ifindex)
			udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)port->ifindex);
	}
}

void udp_move(struct wire_port *port, uint32_t ifindex)
{
	port->ifindex = ifindex;
	atomic_thread_fence(memory_order_seq_cst); /* MOVE */
	for (unsigned i = 0; i < UDP_SENDERS; i++) {
		struct wire_sender *sender =
			atomic_load_explicit(&port->senders[i], memory_order_acquire); /* SENDER */

		if (sender)
			set_options(port, sender->fd);
	}
}

static int open_socket(struct wire_port *port, uint16_t *number)
{
	union gid_sockaddr address;
	socklen_t length = gid_to_sockaddr(port->gid, port->ifindex, 0, &address);

	return source_port_open(&address.any, length, number);
}

/* Opens a socket with a source port of its own. NULL, and the reason in `why`. */
static struct wire_sender *open_sender(struct wire_port *port, const char **why)
{
	struct wire_sender *sender;
	int fd;

	*why = "the process has as many senders as it may";
	if (atomic_fetch_add_explicit(&open_senders, 1, memory_order_relaxed) >= senders_limit())
		goto give_back;
	*why = "out of memory";
	sender = calloc(1, sizeof(*sender));
	if (!sender)
		goto give_back;
	fd = open_socket(port, &sender->number);
	if (fd < 0) {
		*why = strerror(-fd);
		free(sender);
		goto give_back;
	}
	sender->port = port;
	sender->fd = fd;
	set_options(port, fd);
	return sender;

give_back:
	atomic_fetch_sub_explicit(&open_senders, 1, memory_order_relaxed);
	return NULL;
}

static void close_sender(struct wire_sender *sender)
{
	close(sender->fd);
	fork_free(sender);
	atomic_fetch_sub_explicit(&open_senders, 1, memory_order_relaxed);
}

/* The sender that all peers without their own share: the port's socket, with source port 4791. */
static struct wire_sender *share(struct wire_port *port, const char *why)
{
	if (!atomic_exchange_explicit(&share_reported, true, memory_order_relaxed))
		cause_report(CAUSE_SOURCE_PORT_SHARED, 0, "%s", why);
	/* A kernel that refuses this does not merge packets at the receiver either. */
	source_port_share(port->fd);
	set_options(port, port->fd);
	return &port->shared;
}

/* The port may have moved since it was at `ifindex`, before the sender was in the table. */
static void follow(const struct wire_port *port, const struct wire_sender *sender, uint32_t ifindex)
{
	atomic_thread_fence(memory_order_seq_cst); /* MOVE */
	while (port->ifindex != ifindex) {
		ifindex = port->ifindex;
		set_options(port, sender->fd);
	}
}

struct wire_sender *udp_sender(struct wire_port *port, uint32_t remote_qpn)
{
	struct wire_sender *_Atomic *place = &port->senders[remote_qpn % QPNS >> ARENA_QP_BITS];
	struct wire_sender *sender = atomic_load_explicit(place, memory_order_acquire); /* SENDER */
	struct wire_sender *other = NULL;
	uint32_t ifindex;
	const char *why;

	if (sender)
		return sender;

	UNCANCELLED;

	ifindex = port->ifindex;
	sender = open_sender(port, &why);
	if (!sender)
		sender = share(port, why);
	if (atomic_compare_exchange_strong_explicit(place, &other, sender, memory_order_acq_rel,
						    memory_order_acquire)) { /* SENDER */
		follow(port, sender, ifindex);
		return sender;
	}
	/* Another thread has stored its sender first. */
	if (sender != &port->shared)
		close_sender(sender);
	return other;
}

void udp_senders_close(struct wire_port *port)
{
	for (unsigned i = 0; i < UDP_SENDERS; i++) {
		struct wire_sender *sender =
			atomic_load_explicit(&port->senders[i], memory_order_relaxed);

		if (sender && sender != &port->shared)
			close_sender(sender);
	}
}
