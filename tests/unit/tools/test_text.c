/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/text.h"

static const struct {
	const char *from;
	size_t from_len, room;
	const char *out;
} rows[] = {
	{ "", 0, 10, "" },
	{ "abc", 3, 10, "abc" },
	{ "abc", 2, 10, "ab" }, /* no 0 at the end */
	{ "a\0bc", 4, 10, "a" },
	{ "\033[2J", 4, 20, "\\x1b[2J" }, /* a terminal's control sequence */
	{ "a\nb", 3, 20, "a\\x0ab" },
	{ "\\", 1, 20, "\\x5c" },
	{ "\xc3\xa9", 2, 20, "\\xc3\\xa9" },
	{ "\x7f", 1, 20, "\\x7f" },
	{ "abc", 3, 3, "ab" }, /* cut */
	{ "a\nb", 3, 5, "a" }, /* never half an escape */
	{ "abc", 3, 1, "" },
};

static void rows_come_out_printable(void **state)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[32];

		memset(out, '#', sizeof(out));
		text_escape(out, rows[i].room, rows[i].from, rows[i].from_len);
		if (strcmp(out, rows[i].out) != 0)
			fail_msg("row %u: '%s'", i, out);
		assert_int_equal(out[rows[i].room], '#');
	}
}

static void room_is_enough_for_the_worst(void **state)
{
	char from[16], out[TEXT_ROOM(sizeof(from))];

	memset(from, 0xff, sizeof(from));
	text_escape(out, sizeof(out), from, sizeof(from));
	assert_int_equal(strlen(out), 4 * sizeof(from));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_out_printable),
		cmocka_unit_test(room_is_enough_for_the_worst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
