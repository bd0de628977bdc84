/* SPDX-License-Identifier: BSD-2-Clause */
/* When the progress thread keeps polling before it sleeps (adapter/adaptive.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/adaptive.h"

#define SHORT (ADAPTIVE_SHORT_NS / 2)
#define LONG  (ADAPTIVE_SHORT_NS * 2)

static void sleep_short(struct adaptive *adaptive, unsigned times)
{
	while (times--)
		adaptive_on_slept(adaptive, SHORT);
}

/* Events that follow one another closely; a long pause begins the count anew. */
static void looks_while_sleeps_are_short(void **state)
{
	struct adaptive adaptive = { 0 };

	assert_false(adaptive.keeps_polling);
	for (int i = 0; i < 100; i++)
		adaptive_on_slept(&adaptive, LONG);
	assert_false(adaptive.keeps_polling);
	sleep_short(&adaptive, ADAPTIVE_PAUSE_MIN - 1);
	assert_false(adaptive.keeps_polling);
	adaptive_on_slept(&adaptive, LONG);
	sleep_short(&adaptive, ADAPTIVE_PAUSE_MIN - 1);
	assert_false(adaptive.keeps_polling);
	sleep_short(&adaptive, 1);
	assert_true(adaptive.keeps_polling);
	for (int i = 0; i < 1000; i++)
		adaptive_on_found(&adaptive);
	assert_true(adaptive.keeps_polling);
}

/* The number of short sleeps before it polls again. */
static unsigned tries_after(struct adaptive *adaptive)
{
	unsigned sleeps = 0;

	adaptive_on_empty(adaptive);
	assert_false(adaptive->keeps_polling);
	while (!adaptive->keeps_polling) {
		sleep_short(adaptive, 1);
		assert_in_range(++sleeps, 1, ADAPTIVE_PAUSE_MAX);
	}
	return sleeps;
}

static void in_vain_makes_it_rare(void **state)
{
	struct adaptive adaptive = { 0 };
	unsigned last = ADAPTIVE_PAUSE_MIN;

	for (int i = 0; i < 5; i++) {
		unsigned sleeps = tries_after(&adaptive);

		assert_int_equal(sleeps, last * 4);
		last = sleeps;
	}
	for (int i = 0; i < 10; i++)
		assert_int_equal(tries_after(&adaptive), ADAPTIVE_PAUSE_MAX);
	/* a few successes for each time in vain change nothing */
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < ADAPTIVE_WORTH - 1; k++)
			adaptive_on_found(&adaptive);
		assert_int_equal(tries_after(&adaptive), ADAPTIVE_PAUSE_MAX);
	}
}

static void success_makes_it_frequent(void **state)
{
	struct adaptive adaptive = { 0 };

	for (int i = 0; i < 10; i++)
		tries_after(&adaptive);
	/* a stream with a gap now and then */
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < ADAPTIVE_WORTH; k++)
			adaptive_on_found(&adaptive);
		assert_int_equal(tries_after(&adaptive), ADAPTIVE_PAUSE_MIN);
	}
	assert_int_equal(tries_after(&adaptive), ADAPTIVE_PAUSE_MIN * 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_while_sleeps_are_short),
		cmocka_unit_test(in_vain_makes_it_rare),
		cmocka_unit_test(success_makes_it_frequent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
