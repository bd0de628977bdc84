/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bursts over loopback sockets: each sent packet arrives, with an ICRC that a second implementation
 * confirms; packets that cannot be sent, and datagrams that are no packets.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/counter.h"
#include "net.h"
#include "system_call.h"
#include "udp/udp.h"
#include "base/gid.h"
#include "udp/udp_port.h"

#define PAYLOAD_MAX 4096
#define REMOTE_QPN  0x4005
#define LENGTH_MAX  (WIRE_HEADER_BYTES + PAYLOAD_MAX + 3)

static bool has_namespace;
static bool has_veth; /* vf0: 10.99.0.1, fd00::1 */
static uint64_t randomness = 1;
static uint8_t memory[1 << 20]; /* the source of payload */

/* The linker puts our syscall(2) before the real one (--wrap): it counts the calls. */
static unsigned sends, receives;

long __wrap_syscall(long number, ...)
{
	long a[SYSTEM_CALL_ARGUMENTS];
	va_list args;

	va_start(args, number);
	system_call_arguments(args, a);
	va_end(args);
	sends += number == SYS_sendmsg || number == SYS_sendmmsg;
	receives += number == SYS_recvmsg || number == SYS_recvmmsg;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A packet as it has to arrive. */
struct expected {
	uint8_t bytes[LENGTH_MAX];
	uint32_t length;
};

static struct expected expected[1024];
static unsigned expected_count, arrived;

static struct wire_port *open_port(bool v6, unsigned which)
{
	uint8_t gid[WIRE_GID_BYTES];
	struct wire_port *port;
	int fd;

	net_address(v6, which, gid);
	/* Any port of the sender will do; ::1 can have port 4791 only once. */
	fd = net_bind(gid, v6 && which > 1 ? 0 : WIRE_UDP_PORT);
	if (fd < 0)
		return NULL;
	assert_int_equal(udp_open(fd, gid, 0, &port), 0);
	udp_enable_hop_limits(port);
	return port;
}

static struct wire_flow flow_to(struct wire_port *from, bool v6, unsigned which)
{
	struct wire_flow f = { .port = from,
			       .sender = udp_sender(from, REMOTE_QPN),
			       .traffic_class = 0x4a,
			       .hop_limit = 33 };

	memcpy(f.local, udp_gid(from), WIRE_GID_BYTES);
	net_address(v6, which, f.remote);
	if (v6)
		f.flow_label = 0x54321;
	return f;
}

#define ACKNOWLEDGE 0x11

/* A packet with random bytes, and a note of it in expected[]. */
static void make_packet(struct wire_packet *p, unsigned header, unsigned payload, unsigned pieces)
{
	struct expected *e = &expected[expected_count++];
	unsigned left = payload;

	memset(p, 0, sizeof(*p));
	p->header_bytes = (uint16_t)header;
	p->payload_bytes = (uint16_t)payload;
	p->pad_bytes = (uint8_t)(-payload & 3);
	for (unsigned i = 0; i < header; i++)
		p->header[i] = (uint8_t)net_random(&randomness);
	if (p->header[0] == ACKNOWLEDGE) /* which may be passed ahead (test_udp_traffic.c) */
		p->header[0] = 0;
	memset(e, 0, sizeof(*e));
	memcpy(e->bytes, p->header, header);
	e->length = header;
	for (unsigned i = 0; i < pieces && left; i++) {
		unsigned n =
			i + 1 == pieces ? left : 1 + (unsigned)(net_random(&randomness) % left);
		uint8_t *at = memory + net_random(&randomness) % (sizeof(memory) - PAYLOAD_MAX);

		p->piece[p->pieces++] = (struct iovec){ at, n };
		memcpy(e->bytes + e->length, at, n);
		e->length += n;
		left -= n;
	}
	e->length += p->pad_bytes;
}

/*
 * ------------------------------------------------------------------------------------------
 * Against a plain socket, with the ICRC computed a second time.
 */

static uint32_t icrc_of(const uint8_t *end)
{
	return end[0] | end[1] << 8 | end[2] << 16 | (uint32_t)end[3] << 24;
}

/* Takes what is expected from fd; ids say which identifications were met. */
static void check_raw(int fd, const struct wire_flow *f, bool batches)
{
	uint8_t bytes[LENGTH_MAX + 5];
	uint16_t source_port = f->sender->number, id = 0;
	unsigned in_batches = 0;

	for (unsigned i = 0; i < expected_count; i++) {
		const struct expected *e = &expected[i];
		ssize_t n;
		uint32_t icrc, first, next;

		assert_true(net_wait(fd));
		n = recv(fd, bytes, sizeof(bytes), 0);
		assert_int_equal(n, e->length + 4);
		assert_memory_equal(bytes, e->bytes, e->length);
		icrc = icrc_of(bytes + e->length);
		first = net_icrc(f->local, f->remote, source_port, WIRE_UDP_PORT, 0, bytes,
				 e->length);
		next = net_icrc(f->local, f->remote, source_port, WIRE_UDP_PORT, id, bytes,
				e->length);
		assert_true(icrc == first || (batches && icrc == next));
		in_batches += icrc != first;
		id = icrc == first ? 1 : (uint16_t)(id + 1);
	}
	/* IPv6 has no identification to tell them apart. */
	if (batches && expected_count > 2 && gid_is_v4(f->local))
		assert_true(in_batches > 0);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	expected_count = 0;
}

static void send_all(const struct wire_flow *f, const struct wire_packet *packets, unsigned count)
{
	unsigned sent = 99;

	assert_int_equal(udp_send(f, packets, count, &sent), WIRE_SENT);
	assert_int_equal(sent, count);
}

static void run_raw(bool v6, bool batches)
{
	static const unsigned bursts[] = { 1, 2, 3, 16, 17, 64 };
	struct wire_packet packets[WIRE_BURST];
	struct wire_port *port = open_port(v6, 2);
	uint8_t gid[WIRE_GID_BYTES];
	int fd;

	net_address(v6, 1, gid);
	fd = net_bind(gid, WIRE_UDP_PORT);
	if (!port || fd < 0)
		skip();
	if (!batches)
		atomic_store(&port->segments, false);

	struct wire_flow f = flow_to(port, v6, 1);

	/* every size alone */
	for (unsigned payload = 0; payload <= PAYLOAD_MAX; payload += payload < 600 ? 1 : 37) {
		make_packet(packets, payload % 2 ? 12 : 28, payload, 1 + payload % WIRE_PIECES);
		send_all(&f, packets, 1);
		check_raw(fd, &f, false);
	}
	/* bursts as messages make them: a longer first, a shorter last */
	for (unsigned b = 0; b < sizeof(bursts) / sizeof(bursts[0]); b++) {
		for (unsigned payload = 0; payload <= PAYLOAD_MAX; payload = payload * 4 + 1) {
			for (unsigned i = 0; i < bursts[b]; i++)
				make_packet(&packets[i], i ? 12 : 28,
					    i + 1 == bursts[b] ? payload / 2 : payload, 1 + i % 4);
			send_all(&f, packets, bursts[b]);
			check_raw(fd, &f, batches);
		}
	}
	close(fd);
	udp_close(port);
}

static void test_raw_v4_gso(void **state)
{
	run_raw(false, true);
}

static void test_raw_v4_single(void **state)
{
	run_raw(false, false);
}

static void test_raw_v6_gso(void **state)
{
	run_raw(true, true);
}

static void test_raw_v6_single(void **state)
{
	run_raw(true, false);
}

/*
 * ------------------------------------------------------------------------------------------
 * From port to port.
 */

static struct wire_flow expected_flow; /* as the receiver should see it */

static void on_arrival(const struct wire_arrival *a)
{
	const struct expected *e = &expected[arrived++];

	assert_true(arrived <= expected_count);
	assert_int_equal(a->length, e->length);
	assert_memory_equal(a->bytes, e->bytes, e->length);
	assert_int_equal(a->when_ns, 4711);
	assert_memory_equal(a->flow->local, expected_flow.local, WIRE_GID_BYTES);
	assert_memory_equal(a->flow->remote, expected_flow.remote, WIRE_GID_BYTES);
	assert_int_equal(a->flow->traffic_class, expected_flow.traffic_class);
	assert_int_equal(a->flow->hop_limit, expected_flow.hop_limit);
	assert_int_equal(a->flow->flow_label, expected_flow.flow_label);
	assert_int_equal(a->flow->ifindex, 0);
	assert_ptr_equal(a->flow->port, expected_flow.port);
	/* one thread at a time: a second goes away */
	assert_int_equal(udp_receive(a->flow->port, 0, NULL), -EBUSY);
}

static void expect_flow(const struct wire_flow *sent, struct wire_port *to)
{
	expected_flow = *sent;
	memcpy(expected_flow.local, sent->remote, WIRE_GID_BYTES);
	memcpy(expected_flow.remote, sent->local, WIRE_GID_BYTES);
	expected_flow.port = to;
}

static void receive_all(struct wire_port *port)
{
	arrived = 0;
	while (arrived < expected_count) {
		assert_true(net_wait(udp_fd(port)));
		assert_true(udp_receive(port, 4711, on_arrival) > 0);
	}
	assert_int_equal(udp_receive(port, 4711, on_arrival), 0);
	expected_count = 0;
}

static void run_ports(bool v6, bool batches, bool gro)
{
	struct wire_packet packets[WIRE_BURST];
	struct wire_port *to = open_port(v6, 1), *from = open_port(v6, 2);
	uint64_t damaged = counter_read(COUNTER_RX_ICRC_ENCAPSULATED);
	int off = 0;

	if (!to || !from)
		skip();

	struct wire_flow f = flow_to(from, v6, 1);

	expect_flow(&f, to);
	if (!batches)
		atomic_store(&from->segments, false);
	if (!gro)
		assert_int_equal(setsockopt(udp_fd(to), IPPROTO_UDP, 104, &off, sizeof(off)), 0);
	/* any mixture of sizes */
	for (int round = 0; round < 300; round++) {
		/* the first flow's header fields, and those of others */
		static const uint8_t classes[] = { 0x4a, 0x02, 0 }, hops[] = { 33, 7, 255, 1 };
		unsigned count = 1 + (unsigned)(net_random(&randomness) % WIRE_BURST);
		unsigned payload = (unsigned)(net_random(&randomness) % (PAYLOAD_MAX + 1));

		for (unsigned i = 0; i < count; i++) {
			if (net_random(&randomness) % 8 == 0)
				payload = (unsigned)(net_random(&randomness) % (PAYLOAD_MAX + 1));
			make_packet(&packets[i],
				    12 + 4 * (unsigned)(net_random(&randomness) % 4 == 0), payload,
				    1 + i % WIRE_PIECES);
		}
		f.traffic_class = classes[round % 3];
		f.hop_limit = hops[round % 4];
		expect_flow(&f, to);
		send_all(&f, packets, count);
		receive_all(to);
	}
	assert_int_equal(counter_read(COUNTER_RX_ICRC_ENCAPSULATED), damaged);
	udp_close(to);
	udp_close(from);
}

static void test_ports_v4(void **state)
{
	run_ports(false, true, true);
	run_ports(false, true, false);
	run_ports(false, false, true);
	run_ports(false, false, false);
}

static void test_ports_v6(void **state)
{
	run_ports(true, true, true);
	run_ports(true, true, false);
	run_ports(true, false, true);
	run_ports(true, false, false);
}

/* 60 packets of 1 KiB are one system call at either end. */
static void test_gso_is_used(void **state)
{
	struct wire_packet packets[WIRE_BURST];
	struct wire_port *to = open_port(false, 1), *from = open_port(false, 2);
	struct wire_flow f = flow_to(from, false, 1);

	for (unsigned i = 0; i < 60; i++)
		make_packet(&packets[i], 12, 1024, 1);
	expect_flow(&f, to);
	sends = receives = 0;
	send_all(&f, packets, 60);
	receive_all(to);
	assert_int_equal(sends, 1);
	assert_in_range(receives, 1, 3); /* all but the first find nothing */
	udp_close(to);
	udp_close(from);
}

/*
 * Datagrams that come one by one are taken without a look behind each; nothing is left, if one is.
 */
static void test_lone_datagrams(void **state)
{
	struct wire_packet packet;
	struct wire_port *to = open_port(false, 1), *from = open_port(false, 2);
	struct wire_flow f = flow_to(from, false, 1);

	expect_flow(&f, to);
	receives = 0;
	for (unsigned i = 0; i < 128; i++) {
		expected_count = arrived = 0;
		make_packet(&packet, 12, 8, 1);
		send_all(&f, &packet, 1);
		assert_true(net_wait(udp_fd(to)));
		assert_int_equal(udp_receive(to, 4711, on_arrival), 1);
	}
	assert_in_range(receives, 128, 128 + 16 + 128 / 16);

	expected_count = 0;
	for (unsigned i = 0; i < 3; i++) {
		make_packet(&packet, 12, 8, 1);
		send_all(&f, &packet, 1);
	}
	receive_all(to);
	udp_close(to);
	udp_close(from);
}

/*
 * ------------------------------------------------------------------------------------------
 * Packets that cannot be sent.
 */

static void run_fault(bool batches)
{
	struct wire_packet packets[6];
	struct wire_port *to = open_port(false, 1), *from = open_port(false, 2);
	struct wire_flow f = flow_to(from, false, 1);
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned sent = 99;

	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	atomic_store(&from->segments, batches);
	expect_flow(&f, to);
	for (unsigned i = 0; i < 6; i++)
		make_packet(&packets[i], 12, 1000, 1);
	expected_count = 3;
	/* its first and last page are there */
	packets[3].payload_bytes = 4096 + 200;
	packets[3].piece[0] = (struct iovec){ pages + 4000, 4096 + 200 };
	assert_int_equal(udp_send(&f, packets, 6, &sent), WIRE_FAULT);
	assert_int_equal(sent, 3);
	receive_all(to);

	packets[0] = packets[3];
	assert_int_equal(udp_send(&f, packets, 1, &sent), WIRE_FAULT);
	assert_int_equal(sent, 0);
	/* the end of the address space */
	packets[0].piece[0] = (struct iovec){ (void *)(uintptr_t)-100, 4096 + 200 };
	assert_int_equal(udp_send(&f, packets, 1, &sent), WIRE_FAULT);
	assert_int_equal(sent, 0);
	assert_int_equal(udp_receive(to, 0, on_arrival), 0);
	munmap(pages, 3 * 4096);
	udp_close(to);
	udp_close(from);
}

static void test_unreadable_memory(void **state)
{
	run_fault(true);
	run_fault(false);
}

static void run_too_long(bool v6)
{
	struct wire_packet packets[4];
	struct wire_port *to = open_port(v6, 1), *from = open_port(v6, 2);
	struct wire_flow f = flow_to(from, v6, 1);
	unsigned sent = 99;

	net_set_mtu("lo", 1500);
	expect_flow(&f, to);
	for (unsigned i = 0; i < 2; i++)
		make_packet(&packets[i], 12, 1024, 1);
	for (unsigned i = 2; i < 4; i++)
		make_packet(&packets[i], 12, 2048, 1);
	expected_count = 2;
	assert_int_equal(udp_send(&f, packets, 4, &sent), WIRE_TOO_LONG);
	assert_int_equal(sent, 2);
	receive_all(to);
	assert_int_equal(udp_send(&f, packets + 2, 1, &sent), WIRE_TOO_LONG);
	assert_int_equal(sent, 0);
	net_set_mtu("lo", 65536);
	udp_close(to);
	udp_close(from);
}

static void test_too_long(void **state)
{
	if (!has_namespace)
		skip();
	run_too_long(false);
	run_too_long(true);
}

static void test_no_route(void **state)
{
	struct in_addr nowhere = { htonl(0xc0000201) }; /* 192.0.2.1 */
	struct wire_packet packet;
	struct wire_port *from = open_port(false, 2);
	struct wire_flow f = flow_to(from, true, 1);
	unsigned sent = 99;

	make_packet(&packet, 12, 100, 1);
	expected_count = 0;
	assert_int_equal(udp_send(&f, &packet, 1, &sent), WIRE_NO_ROUTE); /* IPv4 to IPv6 */
	assert_int_equal(sent, 0);
	gid_from_v4(&nowhere, f.remote);
	assert_int_equal(udp_send(&f, &packet, 1, &sent), WIRE_NO_ROUTE);
	assert_int_equal(sent, 0);
	udp_close(from);
}

/* Packets to a neighbour that does not answer stay in the socket's account. */
static void test_full(void **state)
{
	struct wire_packet packets[8];
	uint8_t gid[WIRE_GID_BYTES];
	struct in_addr local = { htonl(0x0a630001) }, remote = { htonl(0x0a630002) };
	struct wire_port *port;
	struct wire_flow f;
	enum wire_result result = WIRE_SENT;
	unsigned sent = 0, total = 0;
	int fd, bytes = 4096;

	if (!has_veth)
		skip();
	gid_from_v4(&local, gid);
	fd = net_bind(gid, WIRE_UDP_PORT);
	assert_true(fd >= 0);
	assert_int_equal(udp_open(fd, gid, 0, &port), 0);
	f = flow_to(port, false, 1);
	assert_int_equal(setsockopt(f.sender->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	gid_from_v4(&remote, f.remote);
	for (unsigned i = 0; i < 8; i++)
		make_packet(&packets[i], 12, 1000 + 100 * i, 1);
	expected_count = 0;
	while (result == WIRE_SENT && total < 1000) {
		result = udp_send(&f, packets, 8, &sent);
		total += sent;
	}
	assert_int_equal(result, WIRE_FULL);
	assert_true(sent < 8);
	assert_true(total > 0);
	udp_close(port);
}

/*
 * ------------------------------------------------------------------------------------------
 * Datagrams that are no packets.
 */

static void count_arrival(const struct wire_arrival *a);

static void test_garbage(void **state)
{
	struct wire_port *to = open_port(false, 1), *from = open_port(false, 2);
	struct wire_flow f = flow_to(from, false, 1);
	struct wire_packet packet;
	union gid_sockaddr address;
	uint8_t junk[3000], gid[WIRE_GID_BYTES];
	uint64_t seed = 5, damaged = counter_read(COUNTER_RX_ICRC_ENCAPSULATED);
	socklen_t len = sizeof(address);
	uint16_t port;
	int fd;

	arrived = 0;
	net_address(false, 3, gid);
	fd = net_bind(gid, 0);
	gid_to_sockaddr(f.remote, 0, WIRE_UDP_PORT, &address);
	for (unsigned i = 0; i < 2000; i++) {
		size_t length = i < 40 ? i : net_random(&seed) % sizeof(junk);

		for (size_t k = 0; k < length; k++)
			junk[k] = (uint8_t)net_random(&seed);
		assert_int_equal(sendto(fd, junk, length, 0, &address.any, sizeof(address.v4)),
				 length);
		while (udp_receive(to, 0, count_arrival) > 0)
			;
	}
	/* one of 65,536 has a right ICRC, for one of 65,536 identifications */
	damaged = counter_read(COUNTER_RX_ICRC_ENCAPSULATED) - damaged;
	assert_int_equal(damaged + arrived, 2000);
	assert_in_range(arrived, 0, 3);

	/* a real one with one bit turned, any; but FECN and BECN are not covered */
	assert_int_equal(getsockname(fd, &address.any, &len), 0);
	port = gid_sockaddr_port(&address);
	gid_to_sockaddr(f.remote, 0, WIRE_UDP_PORT, &address);
	make_packet(&packet, 12, 400, 2);
	expected_count = 0;
	arrived = 0;
	for (unsigned bit = 0; bit <= 8 * (12 + 400 + 4); bit++) {
		uint32_t icrc;

		memcpy(junk, expected[0].bytes, expected[0].length);
		icrc = net_icrc(gid, f.remote, port, WIRE_UDP_PORT, 0, junk, 412);
		memcpy(junk + 412, &icrc, 4);
		junk[bit / 8] ^= (uint8_t)(1 << bit % 8); /* at last none */
		sendto(fd, junk, 416, 0, &address.any, sizeof(address.v4));
		assert_true(udp_receive(to, 0, count_arrival) > 0);
		assert_int_equal(arrived, bit / 8 == 4 || bit == 8 * 416);
		arrived = 0;
	}
	close(fd);

	/* and it still receives */
	expect_flow(&f, to);
	make_packet(&packet, 12, 400, 2);
	send_all(&f, &packet, 1);
	receive_all(to);
	udp_close(to);
	udp_close(from);
}

/*
 * ------------------------------------------------------------------------------------------
 * Losses.
 */

static void count_arrival(const struct wire_arrival *a)
{
	uint32_t index;

	arrived++;
	if (a->length < 12)
		return;
	memcpy(&index, a->bytes + 8, sizeof(index));
	expected[index % 1024].length++;
}

/* In a child, since the environment is read once. Writes which of 1024 packets arrived. */
static void run_loss(const char *text, int out)
{
	struct wire_port *to, *from;
	struct wire_flow f;
	uint8_t came[1024];

	setenv("VERBATIM_TEST_LOSS", text, 1);
	to = open_port(false, 1);
	from = open_port(false, 2);
	f = flow_to(from, false, 1);
	memset(expected, 0, sizeof(expected));
	arrived = 0;
	for (uint32_t i = 0; i < 1024; i += WIRE_BURST) {
		struct wire_packet packets[WIRE_BURST] = { 0 };

		for (uint32_t k = 0; k < WIRE_BURST; k++) {
			uint32_t index = i + k;

			packets[k].header_bytes = 12;
			memcpy(packets[k].header + 8, &index, sizeof(index));
		}
		send_all(&f, packets, WIRE_BURST);
		while (udp_receive(to, 0, count_arrival) > 0)
			;
	}
	for (int i = 0; i < 1024; i++)
		came[i] = (uint8_t)expected[i].length;
	_exit(write(out, came, sizeof(came)) != sizeof(came));
}

static unsigned lose(const char *text, uint8_t came[1024])
{
	int ends[2], status;
	unsigned count = 0;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid)
		run_loss(text, ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], came, 1024), 1024);
	close(ends[0]);
	close(ends[1]);
	for (int i = 0; i < 1024; i++) {
		assert_in_range(came[i], 0, 1);
		count += came[i];
	}
	return count;
}

static void test_loss(void **state)
{
	uint8_t a[1024], b[1024], c[1024];

	assert_int_equal(lose("0", a), 1024);
	assert_int_equal(lose("nonsense", a), 1024);
	assert_int_equal(lose("1", a), 0);
	assert_in_range(lose("0.25,7", a), 1024 * 70 / 100, 1024 * 80 / 100);
	lose("0.25,7", b);
	assert_memory_equal(a, b, sizeof(a));
	lose("0.25,8", c);
	assert_memory_not_equal(a, c, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_loss), /* first: its children must be new to the environment */
		cmocka_unit_test(test_raw_v4_gso),
		cmocka_unit_test(test_raw_v4_single),
		cmocka_unit_test(test_raw_v6_gso),
		cmocka_unit_test(test_raw_v6_single),
		cmocka_unit_test(test_ports_v4),
		cmocka_unit_test(test_ports_v6),
		cmocka_unit_test(test_gso_is_used),
		cmocka_unit_test(test_lone_datagrams),
		cmocka_unit_test(test_unreadable_memory),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_no_route),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_garbage),
	};

	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	unsetenv("VERBATIM_TEST_LOSS");
	has_namespace = net_init();
	has_veth = has_namespace && !system("ip link add vf0 type veth peer name vf1 && "
					    "ip addr add 10.99.0.1/24 dev vf0 && "
					    "ip addr add fd00::1/64 dev vf0 nodad && "
					    "ip link set vf0 up && ip link set vf1 up");
	if (!has_namespace)
		fprintf(stderr, "no network namespace of its own: some cases are skipped\n");
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (uint8_t)net_random(&randomness);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
