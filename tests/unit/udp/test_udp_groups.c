/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups: a member gets each datagram of its group and interface once, and no other.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "net.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#define REMOTE_QPN 0x4005

static bool has_veth; /* vf0: 10.99.0.1, fd00::1 */
static unsigned arrived;

/* Any will do. */
static struct wire_packet make_packet(void)
{
	static uint8_t payload[100];
	struct wire_packet packet = { .header_bytes = 20,
				      .payload_bytes = sizeof(payload),
				      .pieces = 1 };

	packet.piece[0] = (struct iovec){ payload, sizeof(payload) };
	return packet;
}

static void send_one(const struct wire_flow *f, const struct wire_packet *packet)
{
	unsigned sent = 99;

	assert_int_equal(udp_send(f, packet, 1, &sent), WIRE_SENT);
	assert_int_equal(sent, 1);
}

static struct wire_flow seen;

static void note_flow(const struct wire_arrival *a)
{
	seen = *a->flow;
	arrived++;
}

/* On vf0: what leaves there with the loop off does not come back, as it would on lo. */
static void run_group(bool v6)
{
	struct in_addr group4 = { htonl(0xefc0ffee) }; /* 239.192.255.238 */
	struct in_addr local4 = { htonl(0x0a630001) };
	uint8_t local[WIRE_GID_BYTES] = { 0xfd, [15] = 1 };
	uint8_t group[WIRE_GID_BYTES] = { 0xff, 0x02, [15] = 0x77 };
	struct wire_port *first, *second, *from;
	struct wire_packet packet = make_packet();
	struct wire_flow f = { 0 };
	int fd, on = 1;

	f.ifindex = if_nametoindex("vf0");
	if (!v6) {
		gid_from_v4(&group4, group);
		gid_from_v4(&local4, local);
	}
	fd = net_bind(local, WIRE_UDP_PORT);
	assert_true(fd >= 0);
	assert_int_equal(udp_open(fd, local, f.ifindex, &from), 0);
	assert_int_equal(udp_open_group(local, f.ifindex, &first), -EINVAL);
	assert_int_equal(udp_open_group(group, f.ifindex, &first), 0);
	assert_int_equal(udp_open_group(group, f.ifindex, &second), 0);

	/* with this flow's header fields the socket is to go on */
	f.port = from;
	f.sender = udp_sender(from, REMOTE_QPN);
	f.hop_limit = 33;
	memcpy(f.local, local, WIRE_GID_BYTES);
	memcpy(f.remote, local, WIRE_GID_BYTES);
	send_one(&f, &packet);

	/* our own does not come back */
	memcpy(f.remote, group, WIRE_GID_BYTES);
	send_one(&f, &packet);
	assert_int_equal(udp_receive(first, 0, note_flow), 0);

	/* with the loop on, to both */
	if (v6)
		setsockopt(f.sender->fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &on, sizeof(on));
	else
		setsockopt(f.sender->fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on));
	send_one(&f, &packet);
	for (int i = 0; i < 2; i++) {
		struct wire_port *port = i ? second : first;

		arrived = 0;
		assert_true(net_wait(udp_fd(port)));
		assert_int_equal(udp_receive(port, 0, note_flow), 1);
		assert_int_equal(arrived, 1);
		assert_memory_equal(seen.local, group, WIRE_GID_BYTES);
		assert_int_equal(seen.hop_limit, 33);
		assert_memory_equal(seen.remote, local, WIRE_GID_BYTES);
		assert_int_equal(seen.ifindex, f.ifindex);
	}
	udp_close(first);
	udp_close(second);
	udp_close(from);
}

static void test_group_v4(void **state)
{
	if (!has_veth)
		skip();
	run_group(false);
}

static void test_group_v6(void **state)
{
	if (!has_veth)
		skip();
	run_group(true);
}

/* A port of vf0's address, whose multicast packets come to members on this host. */
static struct wire_port *open_on_veth(const uint8_t local[WIRE_GID_BYTES])
{
	struct wire_port *port;
	int fd = net_bind(local, WIRE_UDP_PORT);

	assert_true(fd >= 0);
	assert_int_equal(udp_open(fd, local, if_nametoindex("vf0"), &port), 0);
	udp_loop_multicast(port);
	return port;
}

/* What leaves by an interface comes to members there, and not to those on another one. */
static void expect_at_one(const uint8_t local[WIRE_GID_BYTES], const uint8_t group[WIRE_GID_BYTES])
{
	const char *const names[] = { "vf0", "vf2" };
	struct wire_port *from = open_on_veth(local), *members[2];
	struct wire_flow f = { .port = from, .hop_limit = 33 };
	struct wire_packet packet = make_packet();

	f.sender = udp_sender(from, REMOTE_QPN);
	memcpy(f.local, local, WIRE_GID_BYTES);
	memcpy(f.remote, group, WIRE_GID_BYTES);
	for (int i = 0; i < 2; i++)
		assert_int_equal(udp_open_group(group, if_nametoindex(names[i]), &members[i]), 0);
	f.ifindex = if_nametoindex(names[0]);
	send_one(&f, &packet);
	assert_true(net_wait(udp_fd(members[0])));
	assert_int_equal(udp_receive(members[0], 0, note_flow), 1);
	assert_int_equal(udp_receive(members[1], 0, note_flow), 0);
	udp_close(members[0]);
	udp_close(members[1]);
	udp_close(from);
}

/* Groups of wide scope: those of an interface alone are others on the next interface. */
static void test_group_of_one_interface(void **state)
{
	struct in_addr group4 = { htonl(0xefc0ffee) }, local4 = { htonl(0x0a630001) };
	uint8_t local[WIRE_GID_BYTES], group[WIRE_GID_BYTES];

	if (!has_veth)
		skip();
	expect_at_one((uint8_t[WIRE_GID_BYTES]){ 0xfd, [15] = 1 },
		      (uint8_t[WIRE_GID_BYTES]){ 0xff, 0x0e, [15] = 0x77 });
	gid_from_v4(&group4, group);
	gid_from_v4(&local4, local);
	expect_at_one(local, group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_group_v4),
		cmocka_unit_test(test_group_v6),
		cmocka_unit_test(test_group_of_one_interface),
	};

	has_veth = net_init() && !system("ip link add vf0 type veth peer name vf1 && "
					 "ip addr add 10.99.0.1/24 dev vf0 && "
					 "ip addr add fd00::1/64 dev vf0 nodad && "
					 "ip link set vf0 up && ip link set vf1 up && "
					 "ip link add vf2 type veth peer name vf3 && "
					 "ip link set vf2 up && ip link set vf3 up");
	if (!has_veth)
		fprintf(stderr, "no network namespace of its own: some cases are skipped\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
