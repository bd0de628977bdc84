/* SPDX-License-Identifier: BSD-2-Clause */
/* What ports count of the packets that they send and receive. The test is the network. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/counter.h"
#include "base/gid.h"
#include "packet/icrc.h"
#include "udp/loss.h"
#include "system_call.h"
#include "udp/udp.h"
#include "udp/udp_port.h"

#define DEVICE 3

/* The linker puts these before the real ones (--wrap). */
static struct {
	uint8_t bytes[WIRE_GSO_BYTES];
	size_t length, segment;
	uint16_t from_number;
	uint8_t from[WIRE_GID_BYTES];
	bool full; /* takes nothing */
} network;
static uint64_t lost;

uint64_t __wrap_loss_draw(unsigned count);

static long send_it(const struct msghdr *h)
{
	struct cmsghdr *last = NULL;
	uint16_t segment;

	if (network.full) {
		errno = EAGAIN;
		return -1;
	}
	network.length = 0;
	for (size_t i = 0; i < h->msg_iovlen; i++) {
		memcpy(network.bytes + network.length, h->msg_iov[i].iov_base,
		       h->msg_iov[i].iov_len);
		network.length += h->msg_iov[i].iov_len;
	}
	network.segment = network.length;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR((struct msghdr *)h, c))
		last = c;
	if (last && last->cmsg_level == IPPROTO_UDP) {
		memcpy(&segment, CMSG_DATA(last), sizeof(segment));
		network.segment = segment;
	}
	return (long)network.length;
}

static long receive_it(struct msghdr *h)
{
	union gid_sockaddr from;
	struct cmsghdr *c = CMSG_FIRSTHDR(h);
	int segment = (int)network.segment;
	size_t length = network.length;

	if (!length) {
		errno = EAGAIN;
		return -1;
	}
	gid_to_sockaddr(network.from, 0, network.from_number, &from);
	memcpy(h->msg_name, &from, sizeof(from));
	memcpy(h->msg_iov->iov_base, network.bytes, length);
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(segment)),
			       .cmsg_level = IPPROTO_UDP,
			       .cmsg_type = 104 /* UDP_GRO */ };
	memcpy(CMSG_DATA(c), &segment, sizeof(segment));
	h->msg_controllen = CMSG_SPACE(sizeof(segment));
	network.length = 0;
	return (long)length;
}

long __wrap_syscall(long number, ...)
{
	long a[SYSTEM_CALL_ARGUMENTS];
	va_list args;

	va_start(args, number);
	system_call_arguments(args, a);
	va_end(args);
	if (number == SYS_sendmsg)
		return send_it((const struct msghdr *)a[1]);
	if (number == SYS_recvmsg)
		return receive_it((struct msghdr *)a[1]);
	if (number == SYS_recvmmsg) { /* only asked whether there is more */
		errno = EAGAIN;
		return -1;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

uint64_t __wrap_loss_draw(unsigned count)
{
	return lost;
}

static const uint8_t addresses[][WIRE_GID_BYTES] = {
	{ [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 },
	{ [10] = 0xff, [11] = 0xff, 192, 0, 2, 2 },
	{ [10] = 0xff, [11] = 0xff, 239, 1, 1, 1 },
	{ 0xfd, [15] = 1 },
	{ 0xfd, [15] = 2 },
};

struct end {
	struct wire_port *port;
	struct arena_traffic traffic;
};

static void end_init(struct end *end, unsigned which)
{
	int family = gid_is_v4(addresses[which]) ? AF_INET : AF_INET6;

	memset(&end->traffic, 0, sizeof(end->traffic));
	assert_int_equal(udp_open(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), addresses[which], 0,
				  &end->port),
			 0);
	end->port->number = WIRE_UDP_PORT; /* as if it was bound */
	end->port->shared.number = 49152;
	end->port->shared.shared = false;
	udp_count_in(end->port, &end->traffic);
	memset(&network, 0, sizeof(network));
	network.from_number = 49152;
	memcpy(network.from, addresses[gid_is_v4(addresses[which]) ? 0 : 3], WIRE_GID_BYTES);
}

static unsigned send_packets(struct end *from, unsigned to, struct wire_packet *packets,
			     unsigned count)
{
	struct wire_flow flow = { .port = from->port,
				  .sender = &from->port->shared,
				  .hop_limit = 64 };
	unsigned sent;

	memcpy(flow.remote, addresses[to], WIRE_GID_BYTES);
	udp_send(&flow, packets, count, &sent);
	return sent;
}

/* Packets of 24 bytes, the last of `last`; how many were sent. */
static unsigned send_burst(struct end *from, unsigned to, unsigned count, uint16_t last)
{
	struct wire_packet packets[WIRE_BURST];

	memset(packets, 0, sizeof(packets));
	for (unsigned i = 0; i < count; i++)
		packets[i].header_bytes = i + 1 < count ? 24 : last;
	return send_packets(from, to, packets, count);
}

static unsigned arrived;
static uint8_t order[WIRE_BURST]; /* the numbers of those that arrived, and whether more follow */
static bool more[WIRE_BURST];
static unsigned backlogged; /* of those that arrived */
static const struct arena_traffic *seen_by_receiver;

static void receive(const struct wire_arrival *arrival)
{
	order[arrived] = arrival->bytes[11];
	more[arrived++] = arrival->more;
	backlogged += arrival->backlogged;
	/* whoever acts on the packet finds it counted */
	assert_true(seen_by_receiver->received_unicast + seen_by_receiver->received_multicast >=
		    arrived);
}

static void take(struct end *end)
{
	arrived = backlogged = 0;
	seen_by_receiver = &end->traffic;
	udp_receive(end->port, 0, receive);
}

static void assert_sent(const struct end *end, uint64_t unicast, uint64_t bytes, uint64_t multicast)
{
	assert_int_equal(end->traffic.sent_unicast, unicast);
	assert_int_equal(end->traffic.sent_bytes, bytes);
	assert_int_equal(end->traffic.sent_multicast, multicast);
}

static void assert_received(const struct end *end, uint64_t unicast, uint64_t bytes,
			    uint64_t multicast)
{
	assert_int_equal(end->traffic.received_unicast, unicast);
	assert_int_equal(end->traffic.received_bytes, bytes);
	assert_int_equal(end->traffic.received_multicast, multicast);
}

/* Bytes of IP packets: IPv4 20 or IPv6 40, UDP 8, the packet, ICRC 4. */
static void packets_of_a_batch_count_one_by_one(void **state)
{
	static const struct {
		unsigned from, to;
		uint64_t headers;
	} rows[] = { { 0, 1, 28 }, { 3, 4, 48 } };
	struct end from, to;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 3 * (rows[i].headers + 24 + 4) + rows[i].headers + 20 + 4;

		end_init(&from, rows[i].from);
		end_init(&to, rows[i].to);
		assert_int_equal(send_burst(&from, rows[i].to, 4, 20), 4);
		assert_sent(&from, 4, bytes, 0);
		take(&to);
		assert_int_equal(arrived, 4);
		assert_received(&to, 4, bytes, 0);
		assert_sent(&to, 0, 0, 0);
		assert_received(&from, 0, 0, 0);
		udp_close(from.port);
		udp_close(to.port);
	}
}

static void what_does_not_leave_is_not_counted(void **state)
{
	struct end from;

	end_init(&from, 0);
	network.full = true;
	assert_int_equal(send_burst(&from, 1, 2, 24), 0);
	assert_sent(&from, 0, 0, 0);
	network.full = false;
	loss_is_on = true;
	lost = 5;
	assert_int_equal(send_burst(&from, 1, 3, 24), 3);
	loss_is_on = false;
	assert_sent(&from, 1, 28 + 24 + 4, 0);
	udp_close(from.port);
}

/* 64 packets: a look ends behind them, and does not find the socket empty. */
static void expect_backlogged(struct end *from, struct end *to, unsigned count)
{
	assert_int_equal(send_burst(from, 1, 64, 24), 64);
	take(to);
	assert_int_equal(arrived, 64);
	assert_int_equal(backlogged, count);
}

/* Counted with what a packet takes in the buffer: here some 35 KiB a burst, of 128. */
static void what_is_never_read_to_its_end_is_a_backlog(void **state)
{
	struct end from, to;

	end_init(&from, 0);
	end_init(&to, 1);
	to.port->buffer_bytes = 0; /* a small one */
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 3; i++)
			expect_backlogged(&from, &to, 0);
		expect_backlogged(&from, &to, 64);
	}
	for (unsigned i = 0; i < 3; i++)
		expect_backlogged(&from, &to, 0);
	take(&to);
	assert_int_equal(arrived, 0); /* it is empty */
	expect_backlogged(&from, &to, 0);
	to.port->buffer_bytes = 16 << 20; /* a sixteenth is 30 bursts */
	for (unsigned i = 2; i < 30; i++)
		expect_backlogged(&from, &to, 0);
	expect_backlogged(&from, &to, 64);
	udp_close(from.port);
	udp_close(to.port);
}

static void multicast_counts_as_such(void **state)
{
	struct end from, to;

	end_init(&from, 0);
	end_init(&to, 2);
	assert_int_equal(send_burst(&from, 2, 2, 24), 2);
	assert_sent(&from, 0, 2 * 56, 2);
	take(&to);
	assert_received(&to, 0, 2 * 56, 2);
	udp_close(from.port);
	udp_close(to.port);
}

/* They count for their port's device, whatever a peer writes to its entry later, not as received.
 */
static void damaged_packets_count_for_the_device(void **state)
{
	static _Alignas(64) uint8_t arena[ARENA_TRAFFIC_OFFSET];
	uint32_t of_device = arena_device_counters(DEVICE) + COUNTER_RX_ICRC_ENCAPSULATED;
	static const struct {
		uint32_t device, later;
	} rows[] = {
		{ 0, DEVICE + 1 },
		{ DEVICE + 1, UINT32_MAX },
		{ DEVICE + 1, 0 },
		{ ARENA_DEVICES + 1, 0 }, /* there is none */
	};
	struct end from, to;

	counter_init(arena);
	end_init(&from, 0);
	end_init(&to, 1);
	for (unsigned i = 0; i < 4; i++) {
		to.traffic.device = rows[i].device;
		udp_count_in(to.port, &to.traffic);
		to.traffic.device = rows[i].later;
		send_burst(&from, 1, 2, 24);
		network.bytes[13] ^= 1;
		take(&to);
		assert_int_equal(arrived, 1);
		seen_by_receiver = NULL;
		to.traffic.received_unicast = 0;
	}
	assert_int_equal(arena_counters(arena)[of_device], 2);
	assert_int_equal(arena_counters(arena)[COUNTER_RX_ICRC_ENCAPSULATED], 2);
	assert_int_equal(counter_read(COUNTER_RX_ICRC_ENCAPSULATED), 4);
	assert_int_equal(to.traffic.received_bytes, 4 * 56);
	udp_close(from.port);
	udp_close(to.port);
	counter_init(NULL);
}

#define ACKNOWLEDGE 0x11

static void an_acknowledgement_behind_requests_is_passed_first(void **state)
{
	static const struct {
		uint8_t opcode[3]; /* of equal length, and before the last, which is shorter */
		uint8_t last;
		int damaged; /* -1: none */
		uint8_t count, order[4];
	} rows[] = {
		{ { 0x00, 0x01, 0x02 }, ACKNOWLEDGE, -1, 4, { 3, 0, 1, 2 } },
		{ { 0x17, 0x0a, 0x0c }, ACKNOWLEDGE, -1, 4, { 3, 0, 1, 2 } },
		{ { 0x00, 0x01, 0x02 }, ACKNOWLEDGE, 0, 3, { 3, 1, 2 } },
		{ { 0x00, 0x01, 0x02 }, ACKNOWLEDGE, 2, 3, { 3, 0, 1 } },
		{ { 0x00, 0x01, 0x02 }, ACKNOWLEDGE, 3, 3, { 0, 1, 2 } },
		{ { 0x00, 0x01, 0x02 }, 0x05, -1, 4, { 0, 1, 2, 3 } },
		/* what it acknowledges may be behind a response, which has to come first */
		{ { 0x0e, 0x0e, 0x0f }, ACKNOWLEDGE, -1, 4, { 0, 1, 2, 3 } },
		{ { 0x02, 0x0d, 0x0f }, ACKNOWLEDGE, -1, 4, { 0, 1, 2, 3 } },
		{ { 0x04, 0x12, 0x04 }, ACKNOWLEDGE, -1, 4, { 0, 1, 2, 3 } },
		{ { 0x04, 0x64, 0x04 }, ACKNOWLEDGE, -1, 4, { 0, 1, 2, 3 } }, /* UD */
	};
	struct end from, to;

	for (unsigned v6 = 0; v6 < 2; v6++)
		for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			struct wire_packet packets[WIRE_BURST];

			memset(packets, 0, sizeof(packets));
			for (unsigned j = 0; j < 4; j++) {
				packets[j].header[0] = j < 3 ? rows[i].opcode[j] : rows[i].last;
				packets[j].header[11] = (uint8_t)j;
				packets[j].header_bytes = j < 3 ? 24 : 16;
			}
			end_init(&from, v6 ? 3 : 0);
			end_init(&to, v6 ? 4 : 1);
			assert_int_equal(send_packets(&from, v6 ? 4 : 1, packets, 4), 4);
			if (rows[i].damaged >= 0)
				network.bytes[rows[i].damaged * 28 + 13] ^= 1;
			take(&to);
			assert_int_equal(arrived, rows[i].count);
			assert_memory_equal(order, rows[i].order, arrived);
			for (unsigned j = 0; j < arrived; j++)
				assert_int_equal(more[j], j + 1 < arrived);
			udp_close(from.port);
			udp_close(to.port);
		}
}

static void an_acknowledgement_is_passed_behind_damaged_requests(void **state)
{
	struct wire_packet packets[WIRE_BURST];
	struct end from, to;

	memset(packets, 0, sizeof(packets));
	packets[0].header_bytes = 24;
	packets[1].header[0] = ACKNOWLEDGE;
	packets[1].header_bytes = 16;
	end_init(&from, 0);
	end_init(&to, 1);
	assert_int_equal(send_packets(&from, 1, packets, 2), 2);
	network.bytes[13] ^= 1;
	take(&to);
	assert_int_equal(arrived, 1);
	assert_false(more[0]);
	udp_close(from.port);
	udp_close(to.port);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_of_a_batch_count_one_by_one),
		cmocka_unit_test(what_does_not_leave_is_not_counted),
		cmocka_unit_test(what_is_never_read_to_its_end_is_a_backlog),
		cmocka_unit_test(multicast_counts_as_such),
		cmocka_unit_test(damaged_packets_count_for_the_device),
		cmocka_unit_test(an_acknowledgement_behind_requests_is_passed_first),
		cmocka_unit_test(an_acknowledgement_is_passed_behind_damaged_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
