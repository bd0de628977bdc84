/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket of a connection in shared memory: the peer's byte, both ends' FINs, the limits; on a
 * QP whose path is this file's, and a clock that it sets.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../iwarp/rig.h"
#include "connection.h"
#include "iwarp/same_host.h"
#include "tcp/control.h"
#include "tcp/streams.h"

#define COOKIE 0x123456789

static uint64_t ahead_s;	/* the clock, ahead of time */
static struct timespec stopped; /* or it stands there, but for ahead_s */
static int fd, peer;
static struct qp *qp;
static unsigned ends, readies, catch_ups, issued;
static bool served, fin_was_first;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = __real_clock_gettime(clock, now);

	if (stopped.tv_sec && clock == CLOCK_MONOTONIC)
		*now = stopped;
	now->tv_sec += (time_t)ahead_s;
	return rc;
}

/* What the kernel would say of a socket that it encrypts. */
static bool is_tls, is_acknowledged;

bool __wrap_tcp_is_tls(int which);
bool __wrap_tcp_is_tls(int which)
{
	return is_tls;
}

bool __wrap_tcp_is_acknowledged(int which);
bool __wrap_tcp_is_acknowledged(int which)
{
	return is_acknowledged;
}

static void nothing(void)
{
}

static void ended(void *arg)
{
	assert_ptr_equal(arg, &ends);
	ends++;
}

/* The next of the peer: a byte; 0: its FIN; -1: nothing comes in this time. */
static int next_within(int ms)
{
	struct pollfd p = { .fd = peer, .events = POLLIN };
	uint8_t byte;

	if (poll(&p, 1, ms) != 1)
		return -1;
	return recv(peer, &byte, 1, 0) == 1 ? byte : 0;
}

static int next_of_fd(void)
{
	return next_within(5000);
}

static bool is_quiet(void)
{
	return next_within(50) == -1;
}

static void on_ready(struct qp *which)
{
	assert_ptr_equal(which, qp);
	readies++;
}

static bool is_served(struct qp *which, uint64_t cookie)
{
	assert_ptr_equal(which, qp);
	assert_int_equal(cookie, COOKIE);
	return served;
}

/* What the peer left before its FIN, and what this end has to say before its own. */
static void catch_up(uint32_t qpn)
{
	assert_int_equal(qpn, qp->ib.qp_num);
	fin_was_first = peer >= 0 && next_within(0) == 0;
	catch_ups++;
}

static int path_connect(struct qp *which)
{
	return 0;
}

static void path_issue(struct qp *which)
{
	issued++;
}

static void path_quiesce(struct qp *which)
{
	tcp_control_on_quiesce(which);
}

static void path_destroy(struct qp *which)
{
}

static const struct qp_path path = {
	.connect = path_connect,
	.issue = path_issue,
	.quiesce = path_quiesce,
	.destroy = path_destroy,
	.close = tcp_control_disconnect,
};

static int setup(void **state)
{
	static const struct streams_env env = { nothing, nothing, nothing };
	static const struct tcp_control_env control = { on_ready, is_served, catch_up };

	if (connection_make(&fd, &peer, 0) < 0)
		return -1;
	rig_create(IBV_ACCESS_REMOTE_WRITE);
	qp = rig[0].qp;
	ends = readies = catch_ups = issued = 0;
	served = is_acknowledged = true;
	is_tls = false;
	return streams_init(&env) || tcp_control_init(&control) ? -1 : 0;
}

/* The sockets that ended have lingered. */
static int teardown(void **state)
{
	int rc = rig_destroy(state);

	close(peer);
	for (int i = 0; i < 2; i++) {
		ahead_s += 2 * STREAMS_LINGER_NS / 1000000000;
		streams_service();
	}
	assert_int_equal(streams_due_ns(), STREAMS_NEVER);
	return rc;
}

static int attach(void)
{
	int rc;

	lock_acquire(&qp->lock);
	rc = tcp_control_attach(qp, fd, COOKIE, ended, &ends);
	if (!rc) {
		qp->path->destroy(qp);
		qp->path = &path;
		qp_set_state(qp, IBV_QPS_RTS);
	}
	lock_release(&qp->lock);
	return rc;
}

static bool is_told(int wait_ms)
{
	struct pollfd p = { .fd = tcp_control_epoll(), .events = POLLIN };

	return poll(&p, 1, wait_ms) == 1;
}

static void wait_for_epoll(void)
{
	assert_true(is_told(5000));
}

/* What there is, all of it. */
static void serve(void)
{
	wait_for_epoll();
	do {
		tcp_control_on_readable(tcp_control_epoll());
		tcp_control_service();
	} while (is_told(0));
}

static void disconnect(void)
{
	lock_acquire(&qp->lock);
	streams_disconnect(qp, &ends, false);
	lock_release(&qp->lock);
}

static void post(void)
{
	rig_post(0, IBV_WR_RDMA_WRITE, 8, 7);
}

/* The path has done what was posted first. */
static void complete_one(void)
{
	lock_acquire(&qp->lock);
	wqe_finish(sq_wqe(&qp->sq, qp->sq.issue++), IBV_WC_SUCCESS, CAUSE_NONE);
	qp_retire(qp);
	lock_release(&qp->lock);
}

static void complete(void)
{
	while (qp->sq.issue != qp->sq.tail)
		complete_one();
}

static void test_ready(void **state)
{
	const uint8_t byte = SAME_HOST_READY;

	assert_int_equal(attach(), 0);
	lock_acquire(&qp->lock);
	tcp_control_send(qp, "ab", 2);
	lock_release(&qp->lock);
	assert_int_equal(next_of_fd(), 'a');
	assert_int_equal(next_of_fd(), 'b');
	assert_int_equal(send(peer, &byte, 1, 0), 1);
	serve();
	assert_int_equal(readies, 1);
	assert_int_equal(ends, 0);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	assert_int_equal(attach(), -EINVAL); /* it has one */
}

/* What nobody agreed on, and what a process says that is not the peer. */
static void test_other_bytes(void **state)
{
	assert_int_equal(attach(), 0);
	assert_int_equal(send(peer, "xyz", 3, 0), 3);
	serve();
	assert_int_equal(readies, 0);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(qp->failure, CAUSE_IWARP_SEGMENT);
}

/* Its FIN follows, or it never was the peer: nothing is sent. */
static void test_ready_of_another(void **state)
{
	const uint8_t byte = SAME_HOST_READY;

	served = false;
	assert_int_equal(attach(), 0);
	assert_int_equal(send(peer, &byte, 1, 0), 1);
	serve();
	assert_int_equal(readies, 0);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

/* The progress thread does not sleep, so nobody tells it of the descriptor. */
static void test_not_told(void **state)
{
	const uint8_t byte = SAME_HOST_READY;

	assert_int_equal(attach(), 0);
	assert_int_equal(send(peer, &byte, 1, 0), 1);
	wait_for_epoll();
	ahead_s++;
	tcp_control_service();
	assert_int_equal(readies, 1);
}

/* A byte that cannot leave. */
static void test_broken_at_once(void **state)
{
	struct pollfd p = { .fd = fd }; /* POLLHUP */
	struct linger none = { .l_onoff = 1 };

	assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
	close(peer);
	peer = -1;
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_int_equal(attach(), 0);
	lock_acquire(&qp->lock);
	tcp_control_send(qp, "a", 1);
	lock_release(&qp->lock);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	streams_service();
	assert_int_equal(ends, 1);
}

/* The progress thread executes what was posted to a QP that was held. */
static void test_posted_before(void **state)
{
	assert_int_equal(attach(), 0);
	post();
	issued = 0;
	lock_acquire(&qp->lock);
	tcp_control_issue_later(qp);
	lock_release(&qp->lock);
	assert_int_equal(issued, 0);
	streams_service();
	assert_int_equal(issued, 1);
}

static void test_fin_of_the_peer(void **state)
{
	served = false;
	assert_int_equal(attach(), 0);
	post();
	shutdown(peer, SHUT_WR);
	serve();
	assert_int_equal(catch_ups, 1);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(qp->failure, CAUSE_IWARP_CLOSED);
	rig_expect(0, 7, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ends, 0);
	streams_service();
	assert_int_equal(catch_ups, 2);
	assert_int_equal(ends, 1);
	assert_int_equal(next_of_fd(), 0);
}

/* It has closed in good order, and takes what this end has posted. */
static void test_peer_serves_after_its_fin(void **state)
{
	assert_int_equal(attach(), 0);
	post();
	shutdown(peer, SHUT_WR);
	serve();
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	post(); /* that is not what was posted before */
	complete_one();
	rig_expect(0, 7, IBV_WC_SUCCESS);
	ahead_s++;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	rig_expect(0, 7, IBV_WC_WR_FLUSH_ERR);
	streams_service();
	assert_int_equal(ends, 1);
	assert_int_equal(next_of_fd(), 0);
}

/* Until it does no longer. A NAK may come after that shows. */
static void test_peer_fails_after_its_fin(void **state)
{
	unsigned before;

	assert_int_equal(attach(), 0);
	post();
	shutdown(peer, SHUT_WR);
	serve();
	served = false;
	ahead_s++;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	before = catch_ups;
	ahead_s++;
	streams_service();
	assert_true(catch_ups > before);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	rig_expect(0, 7, IBV_WC_WR_FLUSH_ERR);
}

static void test_reset_of_the_peer(void **state)
{
	struct linger none = { .l_onoff = 1 };

	assert_int_equal(attach(), 0);
	assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_LINGER, &none, sizeof(none)), 0);
	close(peer);
	peer = -1;
	serve();
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(ends, 1);
}

/* The half close follows the last completion. */
static void test_disconnect(void **state)
{
	assert_int_equal(attach(), 0);
	post();
	disconnect();
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	assert_true(streams_due_ns() != STREAMS_NEVER);
	ahead_s++;
	streams_service();
	assert_true(is_quiet());
	complete();
	rig_expect(0, 7, IBV_WC_SUCCESS);
	ahead_s++;
	streams_service();
	assert_int_equal(next_of_fd(), 0);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	shutdown(peer, SHUT_WR);
	serve();
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(ends, 1);
}

static void test_disconnect_of_the_idle(void **state)
{
	assert_int_equal(attach(), 0);
	disconnect();
	assert_int_equal(next_of_fd(), 0);
	disconnect(); /* once more changes nothing */
	assert_int_equal(ends, 0);
}

/* A peer that takes no request, and one that never closes. */
static void test_limits(void **state)
{
	assert_int_equal(attach(), 0);
	post();
	disconnect();
	ahead_s += 25;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	ahead_s += 6;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	rig_expect(0, 7, IBV_WC_WR_FLUSH_ERR);
	streams_service();
	assert_int_equal(ends, 1);
}

/* Each completion counts as a byte that moves. */
static void test_slow_requests(void **state)
{
	assert_int_equal(attach(), 0);
	for (int i = 0; i < 4; i++)
		post();
	disconnect();
	for (int i = 0; i < 3; i++) {
		complete_one();
		rig_expect(0, 7, IBV_WC_SUCCESS);
		ahead_s += 20;
		streams_service();
		assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	}
	ahead_s += 31;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	rig_expect(0, 7, IBV_WC_WR_FLUSH_ERR);
}

static void test_peer_never_closes(void **state)
{
	assert_int_equal(attach(), 0);
	disconnect();
	for (int unacknowledged = 1; unacknowledged;) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		assert_int_equal(ioctl(fd, SIOCOUTQ, &unacknowledged), 0);
	}
	ahead_s++;
	streams_service(); /* the acknowledgement of the FIN counts */
	ahead_s += 25;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
	ahead_s += 6;
	streams_service();
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	streams_service();
	assert_int_equal(ends, 1);
}

static void test_qp_fails(void **state)
{
	assert_int_equal(attach(), 0);
	lock_acquire(&qp->lock);
	qp_enter_error(qp, CAUSE_NONE);
	lock_release(&qp->lock);
	streams_service();
	assert_int_equal(ends, 1);
	assert_int_equal(next_of_fd(), 0);
	assert_int_equal(catch_ups, 1);
	assert_false(fin_was_first);
}

/* The kernel may hold a record that a FIN would overtake. */
static void test_fin_of_tls(void **state)
{
	is_tls = true;
	is_acknowledged = false;
	assert_int_equal(attach(), 0);
	disconnect();
	for (int i = 0; i < 3; i++) {
		ahead_s++;
		streams_service();
		assert_true(is_quiet());
	}
	is_acknowledged = true; /* for a moment: the record leaves then */
	ahead_s++;
	streams_service();
	is_acknowledged = false;
	ahead_s++;
	streams_service();
	assert_true(is_quiet());
	is_acknowledged = true;
	ahead_s++;
	__real_clock_gettime(CLOCK_MONOTONIC, &stopped);
	for (int i = 0; i < 3; i++)
		streams_service(); /* as often as anybody likes */
	stopped.tv_sec = 0;
	assert_true(is_quiet());
	ahead_s++;
	streams_service();
	assert_int_equal(next_of_fd(), 0);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS);
}

/* Of a QP that has failed, whose stream is closed then. */
static void test_last_fin_of_tls(void **state)
{
	is_tls = true;
	is_acknowledged = false;
	assert_int_equal(attach(), 0);
	lock_acquire(&qp->lock);
	qp_enter_error(qp, CAUSE_NONE);
	lock_release(&qp->lock);
	shutdown(peer, SHUT_WR);
	for (int i = 0; i < 2; i++) {
		streams_service();
		assert_true(is_quiet());
		ahead_s++;
	}
	is_acknowledged = true;
	for (int i = 0; i < 3; i++) {
		ahead_s++;
		streams_service();
	}
	assert_int_equal(next_of_fd(), 0);
}

static void test_detach(void **state)
{
	lock_acquire(&qp->lock);
	assert_int_equal(tcp_control_attach(qp, fd, COOKIE, ended, &ends), 0);
	tcp_control_detach(qp);
	lock_release(&qp->lock);
	assert_true(is_quiet()); /* it is open, and the caller's */
	assert_int_equal(attach(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ready, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ready_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_posted_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fin_of_the_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_serves_after_its_fin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_fails_after_its_fin, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reset_of_the_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disconnect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disconnect_of_the_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_never_closes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_qp_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fin_of_tls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last_fin_of_tls, setup, teardown),
		cmocka_unit_test_setup_teardown(test_detach, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
