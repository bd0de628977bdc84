/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of timers against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "roce/timer.h"
#include "roce/roce.h"

#define TIMERS 200

static uint64_t told_ns;

static void deadline(uint64_t ns)
{
	told_ns = ns;
}

static uint64_t earliest(const uint64_t *due)
{
	uint64_t first = TIMER_NEVER;

	for (unsigned i = 0; i < TIMERS; i++)
		if (due[i] < first)
			first = due[i];
	return first;
}

static void test_order(void **state)
{
	static struct timer timers[TIMERS];
	const struct roce_env env = { .deadline = deadline };
	uint64_t due[TIMERS], now = 0;
	unsigned seed = 1;

	roce_init(&env);
	for (unsigned i = 0; i < TIMERS; i++) {
		assert_int_equal(timer_reserve(), 0);
		timers[i].qpn = i + 1;
		due[i] = TIMER_NEVER;
	}
	for (unsigned n = 0; n < 100000; n++) {
		unsigned i = (unsigned)rand_r(&seed) % TIMERS;
		uint64_t when = now + (unsigned)rand_r(&seed) % 1000;
		uint32_t qpn;

		switch (rand_r(&seed) % 4) {
		case 0:
			timer_disarm(&timers[i]);
			due[i] = TIMER_NEVER;
			break;
		case 1:
			now += (unsigned)rand_r(&seed) % 20;
			while ((qpn = timer_take_due(now)) != 0) {
				assert_int_equal(due[qpn - 1], earliest(due));
				assert_true(due[qpn - 1] <= now);
				due[qpn - 1] = TIMER_NEVER;
			}
			assert_true(earliest(due) > now);
			assert_int_equal(timer_next_ns(), earliest(due));
			break;
		default:
			if (when < earliest(due))
				told_ns = 0;
			timer_arm(&timers[i], when);
			if (!told_ns)
				fail();
			if (when < due[i]) /* never later than it was */
				due[i] = when;
			assert_int_equal(timer_next_ns(), earliest(due));
			break;
		}
	}
	for (unsigned i = 0; i < TIMERS; i++) {
		timer_disarm(&timers[i]);
		timer_release();
	}
	assert_int_equal(timer_next_ns(), TIMER_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_order) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
