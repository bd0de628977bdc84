/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork_free.h"
#include "base/source_port.h"
#include "base/syscall.h"
#include "packet/icrc.h"
#include "udp/loss.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29 /* Linux 4.20 */
#endif
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62 /* Linux 5.0 */
#endif

#define IPV4_HEADER_BYTES 20
#define IPV6_HEADER_BYTES 40
#define UDP_HEADER_BYTES  8

/* Sets DF, which the ICRC needs if this socket sends, for want of a sender. 0 or -errno. */
static int require(const struct wire_port *port)
{
	if (port->is_v4)
		return udp_set(port->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	return udp_set(port->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
}

/* Sets options that an older kernel may lack. */
static void prefer(const struct wire_port *port)
{
	int fd = port->fd;

	udp_set(fd, IPPROTO_UDP, UDP_GRO, 1);
	udp_set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	source_port_accept_unchecked(fd);
	if (port->is_v4) {
		udp_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		udp_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	} else {
		udp_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		udp_set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
		udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	}
}

void udp_loop_multicast(struct wire_port *port)
{
	port->loops_multicast = true;
}

void udp_count_in(struct wire_port *port, struct arena_traffic *traffic)
{
	uint32_t device = atomic_load_explicit(&traffic->device, memory_order_relaxed);

	port->traffic = traffic;
	port->device = device <= ARENA_DEVICES ? device : 0;
}

void udp_enable_hop_limits(struct wire_port *port)
{
	if (port->is_v4)
		udp_set(port->fd, IPPROTO_IP, IP_RECVTTL, 1);
	else
		udp_set(port->fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
}

/* A kernel before 4.18 would send a GSO batch as one long datagram. */
static bool has_segments(int fd)
{
	int value;
	socklen_t len = sizeof(value);

	return !getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &value, &len);
}

static uint32_t buffer_of(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len) || bytes < 0)
		return 0;
	return (uint32_t)bytes;
}

int udp_open(int fd, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **out)
{
	struct wire_port *port = aligned_alloc(_Alignof(struct wire_port), sizeof(*port));
	union gid_sockaddr bound = { 0 };
	socklen_t len = sizeof(bound);
	int rc = -ENOMEM;

	if (!port)
		goto close_fd;
	memset(port, 0, sizeof(*port));
	port->inbox = udp_inbox_create();
	if (!port->inbox)
		goto free_port;
	port->fd = fd;
	port->ifindex = ifindex;
	memcpy(port->gid, gid, sizeof(port->gid));
	port->is_v4 = gid_is_v4(gid);
	port->is_group = gid_is_multicast(gid);
	port->ip_bytes = (port->is_v4 ? IPV4_HEADER_BYTES : IPV6_HEADER_BYTES) + UDP_HEADER_BYTES;
	atomic_init(&port->segments, has_segments(fd));

	rc = getsockname(fd, &bound.any, &len) < 0 ? -errno : 0;
	if (!rc && bound.any.sa_family != (port->is_v4 ? AF_INET : AF_INET6))
		rc = -EAFNOSUPPORT;
	if (!rc)
		rc = require(port);
	if (rc)
		goto free_port;
	prefer(port);
	port->buffer_bytes = buffer_of(fd);
	port->traffic = &port->uncounted;
	port->number = gid_sockaddr_port(&bound);
	port->shared.port = port;
	port->shared.fd = fd;
	port->shared.number = port->number;
	port->shared.shared = true;
	lock_init(&port->scratch_lock);
	lock_init(&port->receive_lock);
	icrc_init();
	loss_init();
	*out = port;
	return 0;

free_port:
	udp_inbox_destroy(port->inbox);
	free(port);
close_fd:
	close(fd);
	return rc;
}

void udp_close(struct wire_port *port)
{
	udp_senders_close(port);
	close(port->fd);
	udp_scratches_free(port);
	udp_inbox_destroy(port->inbox);
	fork_free(port);
}

static int join(int fd, const uint8_t *group, uint32_t ifindex)
{
	if (gid_is_v4(group)) {
		struct ip_mreqn m = { .imr_ifindex = (int)ifindex };

		memcpy(&m.imr_multiaddr, group + 12, sizeof(m.imr_multiaddr));
		return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m));
	}

	struct ipv6_mreq m = { .ipv6mr_interface = ifindex };

	memcpy(&m.ipv6mr_multiaddr, group, sizeof(m.ipv6mr_multiaddr));
	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof(m));
}

int udp_open_group(const uint8_t group[WIRE_GID_BYTES], uint32_t ifindex, struct wire_port **port)
{
	union gid_sockaddr address;
	socklen_t len = gid_to_sockaddr(group, ifindex, WIRE_UDP_PORT, &address);
	int fd, rc;

	if (!gid_is_multicast(group))
		return -EINVAL;
	fd = sys_socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/*
	 * An IPv6 socket that has joined on one interface gets what comes to another one, where
	 * some other socket of this host has joined.
	 */
	udp_set(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)ifindex);
	/*
	 * Other processes join the same group, too. Bound to it, the socket gets only its
	 * datagrams.
	 */
	if (udp_set(fd, SOL_SOCKET, SO_REUSEADDR, 1) || bind(fd, &address.any, len) < 0 ||
	    join(fd, group, ifindex) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	rc = udp_open(fd, group, ifindex, port);
	if (!rc)
		udp_enable_hop_limits(*port);
	return rc;
}

int udp_fd(const struct wire_port *port)
{
	return port->fd;
}

uint32_t udp_buffer_bytes(const struct wire_port *port)
{
	return port->buffer_bytes;
}

const uint8_t *udp_gid(const struct wire_port *port)
{
	return port->gid;
}
