/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32: its value, before and after the choice of a library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "packet/crc.h"

#define BYTES 5000

static uint8_t sample[BYTES];
static uint32_t before[BYTES];

/* One bit after the other, as the standard has it. */
static uint32_t slow_crc(const uint8_t *bytes, size_t length)
{
	uint32_t crc = UINT32_MAX;

	while (length--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
	}
	return ~crc;
}

static void check(void)
{
	assert_int_equal(crc_add(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc_add(0, sample, 0), 0);
	for (size_t length = 1; length < BYTES; length += 1 + length / 16) {
		size_t cut = length / 3;

		assert_int_equal(crc_add(0, sample, length), slow_crc(sample, length));
		assert_int_equal(crc_add(crc_add(0, sample, cut), sample + cut, length - cut),
				 slow_crc(sample, length));
	}
}

static void test_values(void **state)
{
	uint32_t x = 1;

	for (size_t i = 0; i < BYTES; i++) {
		x = x * 1664525 + 1013904223;
		sample[i] = (uint8_t)(x >> 24);
	}
	check();
	for (size_t i = 0; i < BYTES; i++)
		before[i] = crc_add(0, sample, i);
}

static void test_choice_changes_nothing(void **state)
{
	crc_init();
	check();
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(crc_add(0, sample, i), before[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_choice_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
