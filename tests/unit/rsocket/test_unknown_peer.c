/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any process may send to the UDP socket of a datagram rsocket: datagrams that are no messages of
 * an rsocket are dropped, and messages are read within their length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rsocket/protocol.h"

#define LONG_MS 20000

static struct udp_header good(enum operation operation)
{
	return (struct udp_header){
		.tag = htonl(UDP_HEADER_TAG),
		.version = 4,
		.operation = (uint8_t)operation,
		.length = UDP_HEADER_IPV4,
		.qpn = htonl(0x123456),
		.addr.ipv4 = htonl(INADDR_LOOPBACK),
	};
}

static int victim, stranger;

static void send_header(const struct udp_header *header, size_t length)
{
	uint8_t message[64] = { 0 };

	memcpy(message, header, length < sizeof(*header) ? length : sizeof(*header));
	assert_int_equal(send(stranger, message, length, 0), length);
}

static int make(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(addr);

	victim = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_true(victim >= 0);
	assert_return_code(rbind(victim, (struct sockaddr *)&addr, sizeof(addr)), errno);
	assert_return_code(rgetsockname(victim, (struct sockaddr *)&addr, &length), errno);
	stranger = socket(AF_INET, SOCK_DGRAM, 0);
	assert_return_code(connect(stranger, (struct sockaddr *)&addr, sizeof(addr)), errno);
	return 0;
}

static int unmake(void **state)
{
	close(stranger);
	return rclose(victim);
}

/* Only the datagram with these bytes is delivered. */
static void expect(size_t payload)
{
	struct pollfd poll = { .fd = victim, .events = POLLIN };
	struct udp_header last = good(OP_DATA);
	uint8_t buffer[64];

	send_header(&last, UDP_HEADER_IPV4 + payload);
	assert_int_equal(rpoll(&poll, 1, LONG_MS), 1);
	assert_int_equal(rrecv(victim, buffer, sizeof(buffer), MSG_DONTWAIT), payload);
	assert_int_equal(rrecv(victim, buffer, sizeof(buffer), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void cut_short(void **state)
{
	struct udp_header header = good(OP_DATA);

	for (size_t length = 0; length < UDP_HEADER_IPV4; length++)
		send_header(&header, length);
	expect(7);
}

static void no_message(void **state)
{
	struct udp_header rows[6];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		rows[i] = good(OP_DATA);
	rows[0].tag = 0;
	rows[1].version = 6;
	rows[2].version = 0;
	rows[3].length = 0;
	rows[4].length = 255;
	rows[5].version = 6;
	rows[5].length = UDP_HEADER_IPV6;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t length = UDP_HEADER_IPV4; length <= 40; length += 6)
			send_header(&rows[i], length);
	expect(9);
}

/* A message with a QP number, valid or not, or with an unknown operation, delivers no data. */
static void no_data(void **state)
{
	for (unsigned operation = 1; operation < 256; operation += 5) {
		struct udp_header header = good((enum operation)operation);

		send_header(&header, UDP_HEADER_IPV4 + operation % 8);
	}
	expect(0);
	expect(11);
}

/* Datagrams to a false QP number are lost; only the peer that sent it is affected. */
static void false_qp(void **state)
{
	struct sockaddr_in addr;
	socklen_t length = sizeof(addr);
	struct udp_header header = good(OP_CONTROL);

	send_header(&header, UDP_HEADER_IPV4);
	expect(3);
	assert_return_code(getsockname(stranger, (struct sockaddr *)&addr, &length), errno);
	for (int i = 0; i < 20; i++)
		assert_int_equal(rsendto(victim, "x", 1, 0, (struct sockaddr *)&addr, sizeof(addr)),
				 1);
	expect(5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_short),
		cmocka_unit_test(no_message),
		cmocka_unit_test(no_data),
		cmocka_unit_test(false_qp),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
