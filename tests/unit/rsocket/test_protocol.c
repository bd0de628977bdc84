/* SPDX-License-Identifier: BSD-2-Clause */
/* What is on the wire, byte by byte, and the numbers that travel in 8 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rsocket/protocol.h"

static void scaled_numbers(void **state)
{
	static const struct {
		uint32_t number, carried;
	} rows[] = {
		{ 0, 0 },     { 1, 1 },		{ 127, 127 },	    { 128, 128 },
		{ 129, 128 }, { 255, 128 },	{ 256, 256 },	    { 511, 256 },
		{ 512, 512 }, { 32512, 32512 }, { 0x7fff, 0x7f00 }, { 0x10000, 0x7f00 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(protocol_unscale(protocol_scale(rows[i].number)), rows[i].carried);
}

static void messages(void **state)
{
	assert_int_equal(message_make(OP_DATA, 5), 5);
	assert_int_equal(message_make(OP_CREDIT, 384), 0x80000180);
	assert_int_equal(message_make(OP_MAPPING, 1), 0xc0000001);
	assert_int_equal(message_make(OP_CONTROL, CONTROL_DISCONNECT), 0xe0000000);
	assert_int_equal(message_make(OP_CONTROL, CONTROL_SHUTDOWN), 0xe0000002);
	for (uint32_t operation = 0; operation < 8; operation++) {
		uint32_t message = message_make((enum operation)operation, MESSAGE_VALUE_MAX);

		assert_int_equal(message_operation(message), operation);
		assert_int_equal(message_value(message), MESSAGE_VALUE_MAX);
	}
}

static void layouts(void **state)
{
	assert_int_equal(offsetof(struct hello, credits), 2);
	assert_int_equal(offsetof(struct hello, mappings), 7);
	assert_int_equal(offsetof(struct hello, targets), 8);
	assert_int_equal(offsetof(struct hello, first), 24);
	assert_int_equal(offsetof(struct region, key), 8);
	assert_int_equal(offsetof(struct region, length), 12);
	assert_int_equal(offsetof(struct mapping, region), 8);
	assert_int_equal(offsetof(struct udp_header, version), 4);
	assert_int_equal(offsetof(struct udp_header, qpn), 8);
	assert_int_equal(offsetof(struct udp_header, addr), 12);
	assert_int_equal(sizeof(struct udp_header), UDP_HEADER_IPV6);
	assert_int_equal(offsetof(struct ud_header, port), 2);
	assert_int_equal(offsetof(struct ud_header, addr.ipv6.addr), 8);
	assert_int_equal(sizeof(struct ud_header), UD_HEADER_IPV6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scaled_numbers),
		cmocka_unit_test(messages),
		cmocka_unit_test(layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
