/* SPDX-License-Identifier: BSD-2-Clause */
/* The sizes, flags and numbers of a record's header, and which headers are taken for sane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/record.h"

static void test_units(void **state)
{
	static const struct {
		uint32_t bytes, units;
	} rows[] = {
		{ 0, 1 },   { 1, 1 },	{ 16, 1 },
		{ 17, 2 },  { 80, 2 },	{ 81, 3 },
		{ 144, 3 }, { 145, 4 }, { RECORD_PAYLOAD_MAX, 257 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(record_units(rows[i].bytes), rows[i].units);
	assert_true((size_t)record_units(RECORD_PAYLOAD_MAX) * RECORD_UNIT <= RECORD_BYTES_MAX);
}

static void test_word_carries_kind_flags_and_size(void **state)
{
	static const uint32_t sizes[] = { 0, 16, 17, 4096, RECORD_PAYLOAD_MAX };

	for (uint32_t kind = OPERATION_SEND; kind < RECORD_KINDS; kind++)
		for (uint32_t flags = 0; flags < 32; flags++)
			for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
				struct record_header header = {
					.word = record_word(kind, flags, sizes[i]),
					.bytes = sizes[i],
				};

				assert_int_equal(record_kind(&header), kind);
				assert_int_equal(record_flags(&header), flags);
				assert_int_equal(record_size(&header) % RECORD_UNIT, 0);
				assert_in_range(record_size(&header),
						sizeof(struct record_header) + sizes[i],
						sizeof(struct record_header) + sizes[i] +
							RECORD_UNIT - 1);
				assert_int_not_equal(header.word, 0);
				assert_true(record_is_sane(&header));
			}
}

static void test_insane(void **state)
{
	static const struct record_header rows[] = {
		{ .word = OPERATION_NONE | 1 << 16 },
		{ .word = RECORD_KINDS | 1 << 16 },
		{ .word = 0xff | 1 << 16 },
		{ .word = OPERATION_SEND },	      /* no size */
		{ .word = OPERATION_SEND | 2 << 16 }, /* more than it holds */
		{ .word = OPERATION_SEND | 1 << 16, .bytes = 17 },
		{ .word = OPERATION_SEND | 257u << 16, .bytes = RECORD_PAYLOAD_MAX + 1 },
		{ .word = OPERATION_SEND | 258u << 16, .bytes = RECORD_PAYLOAD_MAX + 64 },
		{ .word = OPERATION_SEND | 1 << 16, .bytes = UINT16_MAX },
		{ .word = OPERATION_SEND | 1 << 16, .bytes = UINT16_MAX - 47 }, /* + 48 is 0 */
		{ .word = OPERATION_SEND, .bytes = UINT16_MAX - 110 },
		{ .word = UINT32_MAX, .bytes = UINT16_MAX },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_false(record_is_sane(&rows[i]));
}

static void test_message_numbers_wrap_at_24_bits(void **state)
{
	struct record_header header = { .msn = 0x7fabcdef };

	assert_int_equal(record_msn(&header), 0xabcdef);
	assert_int_equal(msn_next(0), 1);
	assert_int_equal(msn_next(0xfffffe), 0xffffff);
	assert_int_equal(msn_next(0xffffff), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_word_carries_kind_flags_and_size),
		cmocka_unit_test(test_insane),
		cmocka_unit_test(test_message_numbers_wrap_at_24_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
