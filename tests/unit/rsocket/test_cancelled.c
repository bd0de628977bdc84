/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that are cancelled in a call on an rsocket, which others go on using. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "pair.h"

static void *receive(void *arg)
{
	char byte;

	rrecv(*(int *)arg, &byte, 1, 0);
	return NULL;
}

static void *poll_one(void *arg)
{
	struct pollfd poll = { .fd = *(int *)arg, .events = POLLIN };

	rpoll(&poll, 1, -1);
	return NULL;
}

static void *poll_many(void *arg)
{
	struct pollfd polls[40] = { { .fd = *(int *)arg, .events = POLLIN } };

	for (int i = 1; i < 40; i++)
		polls[i].fd = -1;
	rpoll(polls, 40, -1);
	return NULL;
}

static void *receive_datagram(void *arg)
{
	char byte;

	rrecvfrom(*(int *)arg, &byte, 1, 0, NULL, NULL);
	return NULL;
}

static void expect_cancelled(pthread_t thread)
{
	void *rc;

	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &rc), 0);
	assert_ptr_equal(rc, PTHREAD_CANCELED);
}

static void cancel_asleep(void *(*call)(void *arg), int *fd)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, call, fd), 0);
	usleep(50 * MS);
	expect_cancelled(thread);
}

/* No call has a reference left that keeps the descriptor open. */
static void expect_closed(int fd)
{
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

static void stream_asleep(void **state)
{
	void *(*const calls[])(void *arg) = { receive, poll_one, poll_many };
	char byte;
	int fds[2];

	make_pair(fds, 0);
	for (int i = 0; i < 3; i++) {
		cancel_asleep(calls[i], &fds[1]);
		assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
		wait_for(fds[1], POLLIN);
		assert_int_equal(rrecv(fds[1], &byte, 1, 0), 1);
	}
	close_pair(fds);
	expect_closed(fds[1]);
}

static void datagram_asleep(void **state)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	cancel_asleep(receive_datagram, &fd);
	cancel_asleep(poll_one, &fd);
	assert_return_code(rclose(fd), errno);
	expect_closed(fd);
}

static void *accept_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	raccept(*(int *)arg, NULL, NULL);
	return NULL;
}

static void *look_cancelled(void *arg)
{
	struct pollfd poll = { .fd = *(int *)arg, .events = POLLIN };

	pthread_cancel(pthread_self());
	rpoll(&poll, 1, 0);
	pthread_testcancel();
	return NULL;
}

/* One that looks at a listener does so with its lock. */
static void listener_with_one_pending(void **state)
{
	void *(*const calls[])(void *arg) = { accept_cancelled, look_cancelled };
	struct sockaddr_in addr;
	int listener = make_listener(&addr);
	struct pollfd poll = { .fd = listener, .events = POLLIN };
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, calls[i], &listener), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(rpoll(&poll, 1, 10), 0);
	}
	assert_return_code(rclose(listener), errno);
	expect_closed(listener);
}

static void *receive_uncancelled(void *arg)
{
	char byte;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return (void *)(intptr_t)rrecv(*(int *)arg, &byte, 1, 0);
}

static void program_has_disabled_it(void **state)
{
	pthread_t thread;
	void *rc;
	int fds[2];

	make_pair(fds, 0);
	assert_int_equal(pthread_create(&thread, NULL, receive_uncancelled, &fds[1]), 0);
	usleep(50 * MS);
	assert_int_equal(pthread_cancel(thread), 0);
	usleep(50 * MS);
	assert_int_equal(rsend(fds[0], "x", 1, 0), 1);
	assert_int_equal(pthread_join(thread, &rc), 0);
	assert_int_equal((intptr_t)rc, 1);
	close_pair(fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream_asleep),
		cmocka_unit_test(datagram_asleep),
		cmocka_unit_test(program_has_disabled_it),
		cmocka_unit_test(listener_with_one_pending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
