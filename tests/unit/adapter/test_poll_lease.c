/* SPDX-License-Identifier: BSD-2-Clause */
/* When need_wakeup is set after threads have polled, and when arming a CQ ends a lease. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/poll_lease.h"
#include "adapter/wakeup.h"
#include "base/clock.h"
#include "world.h"

/*
 * A thread takes the lease and polls no more: a lease later a peer has to wake the progress thread.
 */
static void says_asleep_after_the_last_poller(void **state)
{
	uint64_t before = clock_now_ns();

	wakeup_on_polling(before);
	/* a busy machine is away for longer than a lease */
	assert_true(!world.header.need_wakeup || clock_now_ns() - before >= LEASE_MS * 1000000ull);
	assert_true(world_waits_for(world_is_asleep));
}

/* The same if that thread is preempted in the middle of it for longer than a lease. */
static void says_asleep_after_a_poller_that_was_away(void **state)
{
	for (int i = 0; i < 20; i++) {
		world.away_ms = 3 * LEASE_MS;
		wakeup_on_polling(clock_now_ns());
		world.away_ms = 0;
		assert_true(world_waits_for(world_is_asleep));
	}
}

/* It was preempted before: its reading of the clock is old. */
static void says_asleep_after_a_poller_with_an_old_clock(void **state)
{
	uint64_t before = clock_now_ns();

	world_sleep_ms(5 * LEASE_MS);
	for (int i = 0; i < 20; i++) {
		wakeup_on_polling(before + (unsigned)i * LEASE_MS * 1000000ull);
		assert_true(world_waits_for(world_is_asleep));
	}
}

static void arming_ends_the_lease(void **state)
{
	wakeup_on_polling(clock_now_ns() +
			  /* so long is the lease */
			  PATIENCE_MS * 1000000ull);
	assert_true(poll_lease_is_held());
	wakeup_on_arm();
	assert_false(poll_lease_is_held());
	assert_true(world_waits_for(world_is_asleep));
}

static void *take_lease(void *arg)
{
	wakeup_on_polling(clock_now_ns() +
			  /* so long is the lease */
			  PATIENCE_MS * 1000000ull);
	return NULL;
}

/* Another thread polls, also for the thread that will sleep. */
static void arming_leaves_the_lease_of_others(void **state)
{
	pthread_t poller;

	assert_int_equal(pthread_create(&poller, NULL, take_lease, NULL), 0);
	assert_int_equal(pthread_join(poller, NULL), 0);
	wakeup_on_arm();
	assert_true(poll_lease_is_held());
	assert_false(world.header.need_wakeup);
	/* now it is this thread's */
	wakeup_on_polling(clock_now_ns() + 2 * PATIENCE_MS * 1000000ull);
	wakeup_on_arm();
	assert_false(poll_lease_is_held());
	assert_true(world_waits_for(world_is_asleep));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_asleep_after_the_last_poller),
		TEST(says_asleep_after_a_poller_that_was_away),
		TEST(says_asleep_after_a_poller_with_an_old_clock),
		TEST(arming_ends_the_lease),
		TEST(arming_leaves_the_lease_of_others),
	};

	return cmocka_run_group_tests(tests, world_start, NULL);
}
