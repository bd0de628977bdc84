/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source ports: each destination process has its own, which no other socket gets. Packets of the
 * shared socket are never merged by their receiver.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/source_port.h"
#include "net.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

#define QPN(slot, index) ((uint32_t)(slot) << ARENA_QP_BITS | (index))
#define PACKETS		 6

static bool has_namespace;

static struct wire_port *open_port(bool v6, unsigned which)
{
	uint8_t gid[WIRE_GID_BYTES];
	struct wire_port *port;

	net_address(v6, which, gid);
	assert_int_equal(udp_open(net_bind(gid, WIRE_UDP_PORT), gid, 0, &port), 0);
	return port;
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	getsockopt(fd, level, name, &value, &length);
	return value;
}

static void run_distinct(bool v6)
{
	struct wire_port *port = open_port(v6, 1);
	bool met[65536] = { false };

	for (unsigned slot = 0; slot < 40; slot++) {
		struct wire_sender *sender = udp_sender(port, QPN(slot, 5));

		assert_ptr_equal(udp_sender(port, QPN(slot, 16383)), sender);
		assert_false(sender->shared);
		assert_in_range(sender->number, SOURCE_PORT_MIN, SOURCE_PORT_MAX);
		assert_false(met[sender->number]);
		met[sender->number] = true;
		/*
		 * its packets are not fragmented, as those of an adapter; and over IPv6 are of no
		 * other kind
		 */
		assert_int_equal(v6 ? option(sender->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER)
				    : option(sender->fd, IPPROTO_IP, IP_MTU_DISCOVER),
				 IP_PMTUDISC_DO);
		assert_true(!v6 || option(sender->fd, IPPROTO_IPV6, IPV6_V6ONLY) == 1);
		/* no other socket can join it */
		assert_int_equal(option(sender->fd, SOL_SOCKET, SO_REUSEPORT), 0);
		assert_int_equal(net_bind(port->gid, sender->number), -1);
		assert_int_equal(errno, EADDRINUSE);
	}
	assert_ptr_equal(udp_sender(port, 0xff000000 | QPN(3, 1)), udp_sender(port, QPN(3, 1)));
	udp_close(port);
}

static void each_slot_has_a_source_port(void **state)
{
	run_distinct(false);
	run_distinct(true);
}

/* A packet to a source port is neither queued nor answered by ICMP. */
static void a_sender_receives_nothing(void **state)
{
	struct wire_port *port = open_port(false, 1);
	struct wire_sender *sender = udp_sender(port, QPN(7, 1));
	uint8_t other[WIRE_GID_BYTES];
	union gid_sockaddr to;
	struct pollfd p = { .fd = sender->fd, .events = POLLIN };
	int fd;

	net_address(false, 2, other);
	fd = net_bind(other, 0);
	gid_to_sockaddr(port->gid, 0, sender->number, &to);
	assert_int_equal(connect(fd, &to.any, sizeof(to.v4)), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(fd, "12345678", 8, 0), 8);
	assert_int_equal(poll(&p, 1, 50), 0);
	assert_int_equal(recv(sender->fd, other, sizeof(other), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	udp_close(port);
}

static unsigned arrived;

static void count(const struct wire_arrival *arrival)
{
	arrived++;
}

static void send_and_receive(struct wire_port *from, struct wire_port *to, uint32_t qpn)
{
	struct wire_flow flow = { .port = from, .sender = udp_sender(from, qpn), .hop_limit = 64 };
	struct wire_packet packets[PACKETS] = { 0 };
	struct pollfd p = { .fd = udp_fd(to), .events = POLLIN };
	unsigned sent;

	memcpy(flow.remote, udp_gid(to), WIRE_GID_BYTES);
	for (unsigned i = 0; i < PACKETS; i++)
		packets[i].header_bytes = 12;
	assert_int_equal(udp_send(&flow, packets, PACKETS, &sent), WIRE_SENT);
	for (arrived = 0; arrived < PACKETS;) {
		assert_int_equal(poll(&p, 1, 5000), 1);
		udp_receive(to, 0, count);
	}
	assert_int_equal(arrived, PACKETS);
}

/*
 * With descriptors for only a few, the others share the port's socket, and their packets have no
 * checksum.
 */
static void who_has_none_shares_without_checksum(void **state)
{
	struct wire_port *from = open_port(false, 1), *to = open_port(false, 2);
	struct wire_flow flow = { .port = from };
	struct rlimit before, few = { .rlim_cur = 32, .rlim_max = 32 };
	unsigned own = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(option(udp_fd(from), SOL_SOCKET, SO_NO_CHECK), 0);
	for (unsigned slot = 0; slot < 20; slot++)
		own += !udp_sender(from, QPN(slot, 1))->shared;
	assert_int_equal(own, 32 / 4);
	assert_int_equal(option(udp_fd(from), SOL_SOCKET, SO_NO_CHECK), 1);
	flow.sender = udp_sender(from, QPN(19, 1));
	assert_true(flow.sender->shared);
	assert_false(udp_sends_gso(&flow));
	flow.sender = udp_sender(from, QPN(0, 1));
	assert_true(udp_sends_gso(&flow));
	for (unsigned slot = 0; slot < 20; slot++)
		send_and_receive(from, to, QPN(slot, 1));
	udp_close(from);
	udp_close(to);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* Closed senders do not count. */
	from = open_port(false, 1);
	assert_false(udp_sender(from, QPN(19, 1))->shared);
	udp_close(from);
}

/* Over IPv6 the receiver needs UDP_NO_CHECK6_RX for such packets. */
static void packets_without_checksum_arrive_over_ipv6(void **state)
{
	struct wire_port *port = open_port(true, 1);

	source_port_share(udp_sender(port, QPN(1, 1))->fd);
	udp_sender(port, QPN(1, 1))->shared = true;
	assert_int_equal(option(udp_sender(port, QPN(1, 1))->fd, IPPROTO_UDP, UDP_NO_CHECK6_TX), 1);
	send_and_receive(port, port, QPN(1, 1));
	udp_close(port);
}

static void reserve(const char *ports)
{
	int fd = open("/proc/sys/net/ipv4/ip_local_reserved_ports", O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, ports, strlen(ports)), strlen(ports));
	close(fd);
}

static void reserved_ports_are_left_alone(void **state)
{
	struct wire_port *port;

	if (!has_namespace)
		skip();
	port = open_port(false, 1);
	reserve("80,49152-57343,65535");
	for (unsigned slot = 0; slot < 40; slot++)
		assert_in_range(udp_sender(port, QPN(slot, 1))->number, 57344, 65534);
	/* all of them */
	reserve("49152-65535");
	assert_true(udp_sender(port, QPN(40, 1))->shared);
	reserve("\n");
	udp_close(port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_slot_has_a_source_port),
		cmocka_unit_test(a_sender_receives_nothing),
		cmocka_unit_test(who_has_none_shares_without_checksum),
		cmocka_unit_test(packets_without_checksum_arrive_over_ipv6),
		cmocka_unit_test(reserved_ports_are_left_alone),
	};

	has_namespace = net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
