/* SPDX-License-Identifier: BSD-2-Clause */
/* What wakes the progress thread, and which wake-ups a poll lease saves. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/poll_lease.h"
#include "adapter/timers.h"
#include "adapter/wakeup.h"
#include "base/clock.h"

static struct arena_header header;
static int wake_fd;

static bool is_readable(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

/* Whether the progress thread was woken since the last call. */
static bool was_woken(void)
{
	uint64_t count;

	return read(wake_fd, &count, sizeof(count)) == sizeof(count);
}

static int setup(void **state)
{
	header = (struct arena_header){ .need_wakeup = true };
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wakeup_init(wake_fd);
	return poll_lease_init(&header) || timers_init();
}

static int teardown(void **state)
{
	wakeup_reset_after_fork();
	poll_lease_reset_after_fork();
	timers_reset_after_fork();
	close(wake_fd);
	return 0;
}

static void a_kick_is_left_to_a_thread_that_polls(void **state)
{
	wakeup_kick();
	assert_true(was_woken());
	wakeup_on_polling(clock_now_ns());
	assert_false(header.need_wakeup);
	wakeup_kick();
	assert_false(was_woken());
}

static void what_the_progress_thread_alone_does_wakes_it(void **state)
{
	wakeup_on_polling(clock_now_ns());
	wakeup_send();
	assert_true(was_woken());
}

static void a_deadline_sets_the_timer_unless_a_thread_polls(void **state)
{
	wakeup_on_polling(clock_now_ns());
	wakeup_on_deadline(1);
	assert_false(is_readable(timers_roce_fd()));
	wakeup_on_arm();
	wakeup_on_deadline(1);
	assert_true(is_readable(timers_roce_fd()));
}

static void a_deadline_of_retries_does_likewise(void **state)
{
	wakeup_on_polling(clock_now_ns());
	wakeup_on_retry_deadline(1);
	assert_false(is_readable(timers_retry_fd()));
	wakeup_on_arm();
	wakeup_on_retry_deadline(1);
	assert_true(is_readable(timers_retry_fd()));
}

/* A thread may be late with a deadline, and another one have set an earlier one meanwhile. */
static void a_timer_is_moved_forward_only(void **state)
{
	uint64_t far = clock_now_ns() + 3600 * 1000000000ull;

	timers_arm_retry(1);
	timers_arm_retry(far);
	assert_true(is_readable(timers_retry_fd()));
	timers_drain_retry();
	assert_false(is_readable(timers_retry_fd()));
	timers_arm_retry(far); /* who drains it looks anew */
	assert_false(is_readable(timers_retry_fd()));
	timers_arm_retry(1);
	assert_true(is_readable(timers_retry_fd()));

	timers_arm_roce(1);
	timers_arm_roce(far);
	assert_true(is_readable(timers_roce_fd()));
	timers_drain_roce();
	assert_false(is_readable(timers_roce_fd()));
	timers_arm_roce(1);
	assert_true(is_readable(timers_roce_fd()));
}

static void a_thread_that_arms_a_cq_wakes_it_if_it_polled(void **state)
{
	wakeup_on_arm();
	assert_false(was_woken());
	wakeup_on_polling(clock_now_ns());
	wakeup_on_arm();
	assert_true(was_woken());
	wakeup_on_arm();
	assert_false(was_woken());
}

static void after_a_fork_it_writes_nothing(void **state)
{
	wakeup_reset_after_fork();
	assert_int_equal(wakeup_fd(), -1);
	wakeup_send();
	assert_false(was_woken());
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kick_is_left_to_a_thread_that_polls),
		TEST(what_the_progress_thread_alone_does_wakes_it),
		TEST(a_deadline_sets_the_timer_unless_a_thread_polls),
		TEST(a_deadline_of_retries_does_likewise),
		TEST(a_timer_is_moved_forward_only),
		TEST(a_thread_that_arms_a_cq_wakes_it_if_it_polled),
		TEST(after_a_fork_it_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
