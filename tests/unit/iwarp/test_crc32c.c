/* SPDX-License-Identifier: BSD-2-Clause */
/* The CRC32C of an FPDU: the examples of RFC 3720 B.4, in whose order of bytes the stream has it.
 */
#include "iwarp/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void fill(uint8_t bytes[32], int from, int step)
{
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(from + i * step);
}

static void test_examples(void **state)
{
	static const struct {
		int from, step;
		uint8_t crc[CRC32C_BYTES];
	} rows[] = {
		{ 0x00, 0, { 0xaa, 0x36, 0x91, 0x8a } },
		{ 0xff, 0, { 0x43, 0xab, 0xa8, 0x62 } },
		{ 0x00, 1, { 0x4e, 0x79, 0xdd, 0x46 } },
		{ 0x1f, -1, { 0x5c, 0xdb, 0x3f, 0x11 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t bytes[32], crc[CRC32C_BYTES];

		fill(bytes, rows[i].from, rows[i].step);
		crc32c_put(crc, crc32c(bytes, sizeof(bytes)));
		assert_memory_equal(crc, rows[i].crc, sizeof(crc));
	}
}

static void test_nothing(void **state)
{
	assert_int_equal(crc32c("", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
