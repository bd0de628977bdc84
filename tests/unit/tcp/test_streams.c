/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream that ends is given up in time, although its peer reads nothing. The clock is the test's.
 * The child of a fork has no copy of its socket, wherever the parent was.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../iwarp/rig.h"
#include "tcp/streams.h"
#include "tcp/tcp.h"

#define SECOND 1000000000ull

static uint64_t ahead_s;
static int fd, peer;
static unsigned ends;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = __real_clock_gettime(clock, now);

	now->tv_sec += (time_t)ahead_s;
	return rc;
}

/* Where the parent is when it forks. */
enum place {
	ATTACHING,
	TELLING,
	DRAINING,
	CLOSING,
	CLOSED, /* and the number is another file's */
	PLACES,
};

static bool forks;
static unsigned children[PLACES];
static bool child_has_fd[PLACES]; /* one of them, at least */

static void fork_at(enum place place)
{
	int status = 0;
	pid_t child;

	if (!forks)
		return;
	child = fork();
	if (!child) {
		forks = false;
		streams_reset_after_fork();
		_exit(fcntl(fd, F_GETFD) >= 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	children[place]++;
	child_has_fd[place] |= status != 0;
}

int __real_tcp_prepare(int of);
int __wrap_tcp_prepare(int of);
bool __real_tcp_drain(int of);
bool __wrap_tcp_drain(int of);
int __real_close(int of);
int __wrap_close(int of);

int __wrap_tcp_prepare(int of)
{
	fork_at(ATTACHING);
	return __real_tcp_prepare(of);
}

bool __wrap_tcp_drain(int of)
{
	fork_at(DRAINING);
	return __real_tcp_drain(of);
}

int __wrap_close(int of)
{
	if (!forks || of != fd)
		return __real_close(of);
	fork_at(CLOSING);
	assert_int_equal(dup2(peer, fd), fd);
	fork_at(CLOSED);
	return __real_close(of);
}

static void nothing(void)
{
}

static void ended(void *arg)
{
	ends++;
	fork_at(TELLING);
}

static int setup(void **state)
{
	static const struct streams_env env = { nothing, nothing, nothing };
	struct sockaddr_in name = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&name, len) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&name, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&name, len) < 0)
		return -1;
	peer = accept(listener, NULL, NULL);
	close(listener);
	rig_create(IBV_ACCESS_REMOTE_READ);
	ends = 0;
	return streams_init(&env);
}

static int teardown(void **state)
{
	int rc = rig_destroy(state);

	close(peer);
	for (int i = 0; i < 2; i++) { /* it has ended; it has lingered */
		ahead_s += 2 * STREAMS_LINGER_NS / SECOND;
		streams_service();
	}
	return rc;
}

/* All that the sockets hold is full, and more is posted. */
static void attach_and_fill(void)
{
	const struct mpa_agreed agreed = { .initiator = true, .extensions = true };

	lock_acquire(&rig[0].qp->lock);
	assert_int_equal(streams_attach(rig[0].qp, fd, &agreed, ended, NULL), 0);
	lock_release(&rig[0].qp->lock);
	for (unsigned i = 0; i < 60; i++)
		rig_post(0, IBV_WR_RDMA_WRITE, RIG_BYTES, i);
	assert_true(iwarp_wants_room(rig[0].qp));
	assert_int_equal(streams_due_ns(), STREAMS_NEVER);
}

static bool has_ended_after(uint64_t seconds)
{
	ahead_s += seconds;
	streams_service(); /* gives it up */
	streams_service(); /* tells of it */
	return ends == 1;
}

static void test_failed(void **state)
{
	attach_and_fill();
	lock_acquire(&rig[0].qp->lock);
	qp_enter_error(rig[0].qp, CAUSE_NONE);
	lock_release(&rig[0].qp->lock);
	assert_false(has_ended_after(STREAMS_LINGER_NS / SECOND - 1));
	assert_true(has_ended_after(2));
}

static void test_half_closed_by_the_peer(void **state)
{
	attach_and_fill();
	shutdown(peer, SHUT_WR);
	streams_catch_up(rig[0].qp);
	streams_catch_up(rig[0].qp);
	assert_false(has_ended_after(28));
	assert_true(has_ended_after(3));
}

/* As by ibv_modify_qp to SQD. */
static void test_disconnected(void **state)
{
	attach_and_fill();
	lock_acquire(&rig[0].qp->lock);
	rig[0].qp->path->close(rig[0].qp);
	lock_release(&rig[0].qp->lock);
	assert_false(has_ended_after(28));
	assert_true(has_ended_after(3));
}

/* The socket of a stream that is refused stays the caller's. */
static void test_second_stream(void **state)
{
	const struct mpa_agreed agreed = { .initiator = true };
	int second = dup(fd);

	attach_and_fill();
	lock_acquire(&rig[0].qp->lock);
	assert_int_equal(streams_attach(rig[0].qp, second, &agreed, ended, NULL), -EINVAL);
	lock_release(&rig[0].qp->lock);
	assert_int_equal(close(second), 0);
}

static void test_forks(void **state)
{
	forks = true;
	attach_and_fill();
	lock_acquire(&rig[0].qp->lock);
	qp_enter_error(rig[0].qp, CAUSE_NONE);
	lock_release(&rig[0].qp->lock);
	assert_true(has_ended_after(STREAMS_LINGER_NS / SECOND + 1));
	ahead_s += 2 * STREAMS_LINGER_NS / SECOND;
	streams_service();
	forks = false;
	for (enum place place = 0; place < PLACES; place++) {
		assert_true(children[place] > 0);
		assert_int_equal(child_has_fd[place], place == CLOSED);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_failed),	 TEST(test_half_closed_by_the_peer),
		TEST(test_disconnected), TEST(test_second_stream),
		TEST(test_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
