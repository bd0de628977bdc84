/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of rsockets (repoll), compared with those of epoll(7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

/* Of RDMACM_1.5: later than the headers that Verbatim is built with. */
int repoll_create(int size);
int repoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int repoll_wait(int epoll, struct epoll_event *events, int max, int timeout);

static void in_a_set(void **state)
{
	struct epoll_event event = { .events = EPOLLIN }, got[4];
	int fds[2], tube[2], set = repoll_create(1);

	assert_true(set >= 0);
	make_pair(fds, 0);
	assert_return_code(pipe(tube), errno);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_MOD, fds[1], &event), -1);
	assert_int_equal(errno, ENOENT);
	event.data.u32 = 1;
	assert_return_code(repoll_ctl(set, EPOLL_CTL_ADD, fds[1], &event), errno);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_ADD, fds[1], &event), -1);
	assert_int_equal(errno, EEXIST);
	event.data.u32 = 2;
	assert_return_code(repoll_ctl(set, EPOLL_CTL_ADD, tube[0], &event), errno);
	assert_int_equal(repoll_wait(set, got, 4, 10), 0);
	assert_int_equal(write(tube[1], "x", 1), 1);
	assert_int_equal(repoll_wait(set, got, 4, LONG_MS), 1);
	assert_int_equal(got[0].data.u32, 2);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	wait_for(fds[1], POLLIN);
	assert_int_equal(repoll_wait(set, got, 4, LONG_MS), 2);
	assert_int_equal(got[0].data.u32 + got[1].data.u32, 3);
	event = (struct epoll_event){ .events = EPOLLOUT, .data.u32 = 4 };
	assert_return_code(repoll_ctl(set, EPOLL_CTL_DEL, tube[0], NULL), errno);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_MOD, fds[1], &event), errno);
	assert_int_equal(repoll_wait(set, got, 4, LONG_MS), 1);
	assert_int_equal(got[0].data.u32, 4);
	assert_int_equal(got[0].events, EPOLLOUT);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL), errno);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL), -1);
	assert_int_equal(repoll_wait(set, got, 0, 10), -1);
	assert_int_equal(errno, EINVAL);
	assert_return_code(rclose(set), errno);
	assert_int_equal(repoll_wait(set, got, 4, 10), -1);
	assert_int_equal(errno, EBADF);
	close(tube[0]);
	close(tube[1]);
	close_pair(fds);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* epoll(7): a closed descriptor leaves the sets that it is in. */
static void closed_in_a_set(void **state)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 }, got;
	int set = repoll_create(1), fds[2];
	uint64_t begin;

	make_pair(fds, 0);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_ADD, fds[1], &event), errno);
	close_pair(fds);
	begin = now_ms();
	assert_int_equal(repoll_wait(set, &got, 1, 100), 0);
	assert_true(now_ms() - begin >= 99);
	assert_int_equal(repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL), -1);
	assert_return_code(rclose(set), errno);
}

/* A thread in repoll_wait; main changes the set meanwhile. */
struct sleeper {
	pthread_t thread;
	int set, timeout, rc;
	struct epoll_event got;
};

static void *sleep_in_set(void *arg)
{
	struct sleeper *sleeper = arg;

	sleeper->rc = repoll_wait(sleeper->set, &sleeper->got, 1, sleeper->timeout);
	return NULL;
}

static void start(struct sleeper *sleeper, int set, int timeout)
{
	*sleeper = (struct sleeper){ .set = set, .timeout = timeout };
	assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_in_set, sleeper), 0);
	usleep(50 * MS);
}

/* What repoll_wait returned. */
static int end(struct sleeper *sleeper)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	assert_int_equal(pthread_timedjoin_np(sleeper->thread, NULL, &until), 0);
	return sleeper->rc;
}

static void add(int set, int fd, uint32_t events, uint32_t id)
{
	struct epoll_event event = { .events = events, .data.u32 = id };

	assert_return_code(repoll_ctl(set, EPOLL_CTL_ADD, fd, &event), errno);
}

static void added_under_a_sleeper(void **state)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 2 };
	int set = repoll_create(1), fds[2];
	struct sleeper sleeper;

	make_pair(fds, 0);
	start(&sleeper, set, -1);
	add(set, fds[1], EPOLLOUT | EPOLLIN, 1);
	assert_int_equal(end(&sleeper), 1);
	assert_int_equal(sleeper.got.data.u32, 1);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_MOD, fds[1], &event), errno);
	add(set, fds[0], 0, 3);
	start(&sleeper, set, -1);
	event = (struct epoll_event){ .events = EPOLLOUT, .data.u32 = 4 };
	assert_return_code(repoll_ctl(set, EPOLL_CTL_MOD, fds[0], &event), errno);
	assert_int_equal(end(&sleeper), 1);
	assert_int_equal(sleeper.got.data.u32, 4);
	assert_return_code(rclose(set), errno);
	close_pair(fds);
}

static void deleted_under_a_sleeper(void **state)
{
	int set = repoll_create(1), fds[2];
	struct sleeper sleeper;

	make_pair(fds, 0);
	add(set, fds[1], EPOLLIN, 1);
	start(&sleeper, set, 300);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL), errno);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(end(&sleeper), 0);
	assert_return_code(rclose(set), errno);
	close_pair(fds);
}

static void set_closed_under_a_sleeper(void **state)
{
	int set = repoll_create(1), fds[2];
	struct sleeper sleeper;

	make_pair(fds, 0);
	add(set, fds[1], EPOLLIN, 1);
	start(&sleeper, set, -1);
	assert_return_code(rclose(set), errno);
	assert_int_equal(end(&sleeper), -1);
	close_pair(fds);
}

static void one_shot(void **state)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u32 = 2 }, got;
	int set = repoll_create(1), fds[2];
	struct sleeper sleeper;

	make_pair(fds, 0);
	add(set, fds[1], EPOLLIN | EPOLLONESHOT, 1);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(repoll_wait(set, &got, 1, LONG_MS), 1);
	assert_int_equal(got.events, EPOLLIN);
	assert_int_equal(repoll_wait(set, &got, 1, 50), 0);
	start(&sleeper, set, -1);
	assert_return_code(repoll_ctl(set, EPOLL_CTL_MOD, fds[1], &event), errno);
	assert_int_equal(end(&sleeper), 1);
	assert_int_equal(sleeper.got.data.u32, 2);
	assert_int_equal(repoll_wait(set, &got, 1, 50), 0);
	assert_return_code(rclose(set), errno);
	close_pair(fds);
}

/* With room for one event each of three has its turn. */
static void in_turn(void **state)
{
	int set = repoll_create(1), tube[2], fds[2], seen = 0;
	struct epoll_event got;

	make_pair(fds, 0);
	assert_return_code(pipe(tube), errno);
	add(set, fds[0], EPOLLOUT, 1);
	add(set, fds[1], EPOLLOUT, 2);
	add(set, tube[1], EPOLLOUT, 4);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(repoll_wait(set, &got, 1, LONG_MS), 1);
		seen |= (int)got.data.u32;
	}
	assert_int_equal(seen, 7);
	assert_return_code(rclose(set), errno);
	close(tube[0]);
	close(tube[1]);
	close_pair(fds);
}

/* The child's changes of its copy of the set do not concern the parent. */
static void in_a_child(void **state)
{
	int set = repoll_create(1), tube[2], fds[2], status;
	struct sleeper sleeper;
	pid_t child;

	make_pair(fds, 0);
	assert_return_code(pipe(tube), errno);
	add(set, fds[1], EPOLLIN, 1);
	start(&sleeper, set, 500);
	child = fork();
	if (!child) {
		struct epoll_event event = { .events = EPOLLIN }, got;
		int rc = repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL);

		rc |= repoll_wait(set, &got, 1, 10);
		rc |= repoll_ctl(set, EPOLL_CTL_ADD, tube[0], &event);
		_exit(rc ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(end(&sleeper), 0);
	start(&sleeper, set, LONG_MS);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(end(&sleeper), 1);
	assert_return_code(rclose(set), errno);
	close(tube[0]);
	close(tube[1]);
	close_pair(fds);
}

/* What a child closes of its parent's leaves the sets of the child, which then sleep. */
static void closed_in_a_child(void **state)
{
	int set = repoll_create(1), fds[2], status;
	pid_t child;

	make_pair(fds, 0);
	add(set, fds[1], EPOLLIN, 1);
	child = fork();
	if (!child) {
		struct timespec before, after;
		struct epoll_event got;
		int rc = rclose(fds[1]);

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
		rc |= repoll_wait(set, &got, 1, 300);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
		after.tv_sec -= before.tv_sec;
		rc |= after.tv_sec * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 > 100;
		rc |= repoll_ctl(set, EPOLL_CTL_DEL, fds[1], NULL) != -1;
		_exit(rc ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_return_code(rclose(set), errno);
	close_pair(fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_set),
		cmocka_unit_test(closed_in_a_set),
		cmocka_unit_test(added_under_a_sleeper),
		cmocka_unit_test(deleted_under_a_sleeper),
		cmocka_unit_test(set_closed_under_a_sleeper),
		cmocka_unit_test(one_shot),
		cmocka_unit_test(in_turn),
		cmocka_unit_test(in_a_child),
		cmocka_unit_test(closed_in_a_child),
	};

	/* The parent may have set SIG_IGN: then waitpid would find no child. */
	signal(SIGCHLD, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
