/* When the progress thread looks on before it sleeps (adapter/awake.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/awake.h"

#define SHORT (AWAKE_SHORT_NS / 2)
#define LONG  (AWAKE_SHORT_NS * 2)

static void sleep_short(struct awake *awake, unsigned times)
{
	while (times--)
		awake_on_slept(awake, SHORT);
}

/* Events that follow one another closely; a long pause begins the count anew. */
static void looks_while_sleeps_are_short(void **state)
{
	struct awake awake = { 0 };

	assert_false(awake.looks);
	for (int i = 0; i < 100; i++)
		awake_on_slept(&awake, LONG);
	assert_false(awake.looks);
	sleep_short(&awake, AWAKE_PAUSE_MIN - 1);
	assert_false(awake.looks);
	awake_on_slept(&awake, LONG);
	sleep_short(&awake, AWAKE_PAUSE_MIN - 1);
	assert_false(awake.looks);
	sleep_short(&awake, 1);
	assert_true(awake.looks);
	for (int i = 0; i < 1000; i++)
		awake_on_found(&awake);
	assert_true(awake.looks);
}

/* How many short sleeps there are before it looks again. */
static unsigned tries_after(struct awake *awake)
{
	unsigned sleeps = 0;

	awake_on_vain(awake);
	assert_false(awake->looks);
	while (!awake->looks) {
		sleep_short(awake, 1);
		assert_in_range(++sleeps, 1, AWAKE_PAUSE_MAX);
	}
	return sleeps;
}

static void in_vain_makes_it_rare(void **state)
{
	struct awake awake = { 0 };
	unsigned last = AWAKE_PAUSE_MIN;

	for (int i = 0; i < 5; i++) {
		unsigned sleeps = tries_after(&awake);

		assert_int_equal(sleeps, last * 4);
		last = sleeps;
	}
	for (int i = 0; i < 10; i++)
		assert_int_equal(tries_after(&awake), AWAKE_PAUSE_MAX);
	/* a few successes for each time in vain change nothing */
	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < AWAKE_WORTH - 1; k++)
			awake_on_found(&awake);
		assert_int_equal(tries_after(&awake), AWAKE_PAUSE_MAX);
	}
}

static void success_makes_it_frequent(void **state)
{
	struct awake awake = { 0 };

	for (int i = 0; i < 10; i++)
		tries_after(&awake);
	/* a stream with a gap now and then */
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < AWAKE_WORTH; k++)
			awake_on_found(&awake);
		assert_int_equal(tries_after(&awake), AWAKE_PAUSE_MIN);
	}
	assert_int_equal(tries_after(&awake), AWAKE_PAUSE_MIN * 4);
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
