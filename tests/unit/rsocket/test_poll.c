/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect at their limits, compared with poll(2) and select(2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "pair.h"

/* The kernel counts entries of poll(2), not descriptors: an entry takes no more than it needs. */
static void near_the_limit(void **state)
{
	enum { ENTRIES = 30, LIMIT = 64 };
	struct pollfd polls[ENTRIES];
	struct rlimit before, few;
	int fds[2], rc;

	make_pair(fds, 0);
	for (int i = 0; i < ENTRIES; i++)
		polls[i] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
	few = before;
	few.rlim_cur = LIMIT;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
	rc = rpoll(polls, ENTRIES, 10);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
	assert_int_equal(rc, 0);
	close_pair(fds);
}

static void wake_up(int number)
{
}

static void ignored_entries(void **state)
{
	int fds[2], tube[2];

	make_pair(fds, 0);
	assert_return_code(pipe(tube), errno);
	for (int slow = 0; slow < 2; slow++) {
		struct pollfd polls[] = {
			{ .fd = -1, .events = POLLIN, .revents = POLLIN },
			{ .fd = fds[0], .events = (short)(slow ? POLLIN : POLLOUT) },
			{ .fd = -7, .events = POLLIN, .revents = POLLIN },
			{ .fd = tube[1], .events = (short)(slow ? 0 : POLLOUT) },
			{ .fd = tube[0], .events = POLLIN, .revents = POLLIN },
		};

		assert_int_equal(rpoll(polls, 2, 10), !slow);
		assert_int_equal(polls[0].revents, 0);
		assert_int_equal(rpoll(polls, 5, 10), slow ? 0 : 2);
		assert_int_equal(polls[2].revents, 0);
		assert_int_equal(polls[3].revents, slow ? 0 : POLLOUT);
		assert_int_equal(polls[4].revents, 0);
	}
	close(tube[0]);
	close(tube[1]);
	close_pair(fds);
}

/* Its seconds overflow 64 bits of nanoseconds. */
static void far_away(void **state)
{
	struct timeval timeout = { .tv_sec = UINT64_MAX / 1000000000 };
	/* Again and again: the first may come before the wait begins. */
	struct itimerval soon = { .it_value.tv_usec = 100 * MS, .it_interval.tv_usec = 100 * MS };
	struct itimerval never = { 0 };
	fd_set reads;
	int fds[2];

	make_pair(fds, 0);
	FD_ZERO(&reads);
	FD_SET(fds[0], &reads);
	signal(SIGALRM, wake_up);
	assert_return_code(setitimer(ITIMER_REAL, &soon, NULL), errno);
	assert_int_equal(rselect(fds[0] + 1, &reads, NULL, NULL, &timeout), -1);
	assert_int_equal(errno, EINTR);
	assert_return_code(setitimer(ITIMER_REAL, &never, NULL), errno);
	close_pair(fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(near_the_limit),
		cmocka_unit_test(ignored_entries),
		cmocka_unit_test(far_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
