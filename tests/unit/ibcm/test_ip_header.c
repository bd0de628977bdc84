/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses before a program's private data, and service IDs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ibcm/ip_header.h"

static void test_ipv4_lies_at_the_end_of_its_field(void **state)
{
	struct ip_header h = {
		.is_v4 = true,
		.source_port = 0x1234,
		.source = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 1 },
		.destination = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 2 },
	};
	static const uint8_t wanted[IP_HEADER_BYTES] = {
		0, 0x40, 0x12, 0x34, [16] = 10, 77, 0, 1, [32] = 10, 77, 0, 2,
	};
	uint8_t bytes[IP_HEADER_BYTES];
	struct ip_header back;

	ip_header_encode(&h, bytes);
	assert_memory_equal(bytes, wanted, sizeof(wanted));
	assert_true(ip_header_decode(bytes, &back));
	assert_true(back.is_v4);
	assert_int_equal(back.source_port, 0x1234);
	assert_memory_equal(back.source, h.source, sizeof(h.source));
	assert_memory_equal(back.destination, h.destination, sizeof(h.destination));
}

static void test_ipv6_and_unknown_versions(void **state)
{
	struct ip_header h = { .source_port = 7,
			       .source = { 0xfd, [15] = 1 },
			       .destination = { 0xfd, [15] = 2 } };
	uint8_t bytes[IP_HEADER_BYTES];
	struct ip_header back;

	ip_header_encode(&h, bytes);
	assert_int_equal(bytes[1], 0x60);
	assert_true(ip_header_decode(bytes, &back));
	assert_memory_equal(back.source, h.source, sizeof(h.source));
	bytes[1] = 0x50;
	assert_false(ip_header_decode(bytes, &back));
	bytes[1] = 0x60;
	bytes[0] = 1;
	assert_false(ip_header_decode(bytes, &back));
}

static void test_service_ids(void **state)
{
	uint16_t space, port;

	assert_int_equal(ip_header_service_id(0x0106, 7174), 0x01061c06);
	assert_true(ip_header_service(0x01061c06, &space, &port));
	assert_int_equal(space, 0x0106);
	assert_int_equal(port, 7174);
	assert_false(ip_header_service(0x100000001061c06, &space, &port));
	assert_false(ip_header_service(0x02061c06, &space, &port));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4_lies_at_the_end_of_its_field),
		cmocka_unit_test(test_ipv6_and_unknown_versions),
		cmocka_unit_test(test_service_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
