/* SPDX-License-Identifier: BSD-2-Clause */
/* PSNs where they wrap around, at 2^24, and where before and after change places, at 2^23. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/psn.h"

static const struct {
	uint32_t a, b;
	int32_t diff; /* of a from b */
} rows[] = {
	{ 0, 0, 0 },
	{ 1, 0, 1 },
	{ 0, 1, -1 },
	{ 0xffffff, 0xffffff, 0 },
	/* around 2^24 */
	{ 0, 0xffffff, 1 },
	{ 0xffffff, 0, -1 },
	{ 5, 0xfffffb, 10 },
	{ 0xfffffb, 5, -10 },
	/* around 2^23, where a comparison of signed 24-bit numbers would change its mind */
	{ 0x800000, 0x7fffff, 1 },
	{ 0x7fffff, 0x800000, -1 },
	{ 0x800005, 0x7ffffb, 10 },
	/* 2^23 apart: the farthest that is ahead, and what is behind both ways */
	{ 0x7fffff, 0, 0x7fffff },
	{ 0, 0x7fffff, -0x7fffff },
	{ 0x800000, 0, -0x800000 },
	{ 0, 0x800000, -0x800000 },
	{ 0x800001, 0, -0x7fffff },
	{ 5, 0x800006, 0x7fffff },
	{ 0x800006, 5, -0x7fffff },
};

static void test_order(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		psn_t a = psn_of(rows[i].a), b = psn_of(rows[i].b);

		assert_int_equal(psn_diff(a, b), rows[i].diff);
		assert_int_equal(psn_before(a, b), rows[i].diff < 0);
		assert_int_equal(psn_after(a, b), rows[i].diff > 0);
		assert_int_equal(psn_equal(a, b), rows[i].diff == 0);
	}
}

/* What is added is how far it is ahead, and taking it away leads back. */
static void test_add(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		psn_t a = psn_of(rows[i].a), b = psn_of(rows[i].b);
		uint32_t n = (uint32_t)rows[i].diff;

		assert_true(psn_equal(psn_add(b, n), a));
		assert_true(psn_equal(psn_sub(a, n), b));
	}
	assert_int_equal(psn_add(psn_of(0xffffff), 1).number, 0);
	assert_int_equal(psn_sub(psn_of(0), 1).number, 0xffffff);
	assert_int_equal(psn_add(psn_of(0x7fffff), 1).number, 0x800000);
	assert_int_equal(psn_add(psn_of(0x123456), 1 << 24).number, 0x123456);
}

/* An attribute of a program may have more bits (IBA: 24 are used). */
static void test_of_longer_number(void **state)
{
	assert_int_equal(psn_of(0xff000000).number, 0);
	assert_int_equal(psn_of(0x12abcdef).number, 0xabcdef);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_of_longer_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
