/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams to another host that are posted in a row leave together: shm/nagle.h. */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "object/ah.h"
#include "shm/nagle.h"
#include "shm/retry.h"

#define BYTES 1024
#define CALLS 256

static struct rig rig;
static char memory[BYTES];
static struct mr *mr;
static struct ah *ah, *other_ah, *local_ah;
static struct qp *qp;
static unsigned calls, sent[CALLS];
static unsigned takes; /* of one call, at most; 0: it is told to try again */

static int to_wire(struct qp *of, unsigned most, unsigned *count, enum cause *cause)
{
	const struct wqe *first = sq_wqe(&of->sq, of->sq.issue);

	*count = 0;
	while (*count < most && *count < takes &&
	       sq_wqe(&of->sq, of->sq.issue + *count)->ah == first->ah)
		++*count;
	if (calls < CALLS)
		sent[calls] = *count;
	calls++;
	return *count ? 0 : -EAGAIN;
}

static struct ah *make_ah(bool local)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	union ibv_gid own = { 0 };
	struct ah *made;

	assert_int_equal(ah_create(rig.pd, &attr, &own, local, &made), 0);
	return made;
}

static struct qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_UD,
		.send_cq = &rig.cq->ib,
		.recv_cq = &rig.cq->ib,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 256, .max_send_sge = 1 },
	};
	struct qp *made;

	assert_int_equal(qp_create(rig.context, rig.pd, &attr, &shm_path, &made), 0);
	rig_connect(made, &(struct rig_connection){ 0 });
	return made;
}

static int setup(void **state)
{
	rig_create(&rig);
	shm_env.datagrams_to_wire = to_wire;
	mr = rig_mr(&rig, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	ah = make_ah(false);
	other_ah = make_ah(false);
	local_ah = make_ah(true);
	qp = make_qp();
	calls = 0;
	takes = 64;
	nagle_on_poll();
	shm_retry_run(UINT64_MAX - 1); /* timers of the test before */
	rig_deadlines = 0;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(qp_destroy(qp), 0);
	ah_destroy(ah);
	ah_destroy(other_ah);
	ah_destroy(local_ah);
	assert_int_equal(mr_destroy(mr), 0);
	rig_destroy(&rig);
	return 0;
}

static void post_to(struct ah *to, unsigned count, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->ib.lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { .ah = &to->ib, .remote_qpn = 1 },
	};

	while (count--)
		rig_post_send(qp, &wr);
}

static void post(unsigned count)
{
	post_to(ah, count, BYTES);
}

static unsigned completed(void)
{
	struct ibv_wc wc;
	unsigned count = 0;

	for (; cq_pop(rig.cq, 1, &wc); count++)
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return count;
}

static void test_the_first_leave_at_once(void **state)
{
	for (unsigned round = 0; round < 3; round++) {
		post(NAGLE_AT_ONCE);
		assert_int_equal(calls, (round + 1) * NAGLE_AT_ONCE);
		assert_int_equal(completed(), NAGLE_AT_ONCE);
		nagle_on_poll();
	}
	assert_int_equal(calls, 3 * NAGLE_AT_ONCE);
}

/* It is lost in the end, and nobody spins for it. */
static void test_a_socket_that_stays_full(void **state)
{
	unsigned tries = 0;

	takes = 0;
	post(1);
	while (tries < 5000 && !completed()) {
		tries++;
		shm_retry_run(UINT64_MAX - 1);
	}
	assert_in_range(tries, 1, 2000);
	assert_in_range(calls, 2, 1100); /* each 50 us, for 50 ms */
}

static void test_those_behind_leave_at_the_next_poll(void **state)
{
	post(NAGLE_AT_ONCE + 20);
	assert_int_equal(calls, NAGLE_AT_ONCE);
	assert_int_equal(completed(), NAGLE_AT_ONCE);
	nagle_on_poll();
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
	assert_int_equal(sent[NAGLE_AT_ONCE], 20);
	assert_int_equal(completed(), 20);
	nagle_on_poll();
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
}

static void test_a_full_batch_leaves(void **state)
{
	post(NAGLE_AT_ONCE + 100);
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
	assert_in_range(sent[NAGLE_AT_ONCE], 50, 64);
	nagle_on_poll();
	assert_int_equal(completed(), NAGLE_AT_ONCE + 100);
}

/* A thread that stops posting and polling: the progress thread, by the timer. */
static void test_the_timer_lets_them_leave(void **state)
{
	uint64_t begin = now_ns();

	post(NAGLE_AT_ONCE + 5);
	assert_int_equal(rig_deadlines, 1);
	assert_in_range(rig_deadline_ns, begin, now_ns() + NAGLE_WAIT_NS);
	shm_retry_run(rig_deadline_ns - 1);
	assert_int_equal(calls, NAGLE_AT_ONCE);
	shm_retry_run(rig_deadline_ns);
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
	assert_int_equal(completed(), NAGLE_AT_ONCE + 5);
	nagle_on_poll();
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
}

/* It fills batches by itself: the timer is for the last one. */
static void test_a_stream_seldom_needs_the_timer(void **state)
{
	uint64_t begin = now_ns();

	post(NAGLE_AT_ONCE + 100);
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
	shm_retry_run(begin + NAGLE_STREAM_WAIT_NS - 1);
	assert_int_equal(calls, NAGLE_AT_ONCE + 1);
	assert_true(rig_deadline_ns >= begin + NAGLE_STREAM_WAIT_NS);
	shm_retry_run(rig_deadline_ns);
	assert_int_equal(calls, NAGLE_AT_ONCE + 2);
	assert_int_equal(completed(), NAGLE_AT_ONCE + 100);
}

/* It has stopped: what it posts next is no stream yet. */
static void test_a_stream_ends(void **state)
{
	post(NAGLE_AT_ONCE + 100);
	nagle_on_poll();
	post(NAGLE_AT_ONCE + 5);
	calls = 0;
	shm_retry_run(now_ns() + NAGLE_WAIT_NS);
	assert_int_equal(calls, 1);
	assert_int_equal(completed(), 2 * NAGLE_AT_ONCE + 105);
}

/* A stream goes on behind a poll that found nothing, and has no single datagrams there. */
static void test_a_stream_goes_on(void **state)
{
	post(NAGLE_AT_ONCE + 100);
	nagle_on_poll();
	calls = 0;
	post(20);
	assert_int_equal(calls, 0);
	nagle_on_poll();
	assert_int_equal(calls, 1);
	assert_int_equal(sent[0], 20);
	post(NAGLE_AT_ONCE); /* the posts before filled no batch */
	assert_int_equal(calls, 1 + NAGLE_AT_ONCE);
	assert_int_equal(completed(), 2 * NAGLE_AT_ONCE + 120);
}

static void test_another_address_lets_them_leave(void **state)
{
	post(NAGLE_AT_ONCE + 5);
	post_to(other_ah, 1, BYTES);
	assert_int_equal(calls, NAGLE_AT_ONCE + 2);
	assert_int_equal(sent[NAGLE_AT_ONCE], 5);
	assert_int_equal(sent[NAGLE_AT_ONCE + 1], 1);
	assert_int_equal(completed(), NAGLE_AT_ONCE + 6);
}

/* Those to this host go through a ring, one system call fewer. */
static void test_local_ones_never_wait(void **state)
{
	post_to(local_ah, 3 * NAGLE_AT_ONCE, 8);
	assert_int_equal(completed(), 3 * NAGLE_AT_ONCE);
	assert_int_equal(calls, 0);
}

static void test_a_thread_that_never_polls(void **state)
{
	for (unsigned i = 0; i < 2 * NAGLE_WAITS_MAX; i++) {
		post(1);
		completed();
	}
	calls = 0;
	post(10);
	assert_int_equal(calls, 10);
	nagle_on_completions(); /* it polls after all */
	calls = 0;
	post(10);
	assert_int_equal(calls, 0);
	nagle_on_poll();
	assert_int_equal(calls, 1);
}

/* What the socket does not take waits for it, and is not issued by a poll before that. */
static void test_a_full_socket(void **state)
{
	takes = 3;
	post(NAGLE_AT_ONCE + 5);
	nagle_on_poll();
	assert_int_equal(completed(), NAGLE_AT_ONCE + 5);
	takes = 0;
	post(NAGLE_AT_ONCE + 5);
	calls = 0;
	nagle_on_poll();
	assert_int_equal(calls, 0);
	takes = 64;
	shm_retry_run(UINT64_MAX - 1);
	assert_int_equal(completed(), NAGLE_AT_ONCE + 5);
}

static void test_a_qp_that_is_gone(void **state)
{
	post(NAGLE_AT_ONCE + 5);
	rig_reset(qp);
	nagle_on_poll();
	assert_int_equal(calls, NAGLE_AT_ONCE);
	shm_retry_run(UINT64_MAX - 1);
	assert_int_equal(calls, NAGLE_AT_ONCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(the_first_leave_at_once),
		TEST(those_behind_leave_at_the_next_poll),
		TEST(a_full_batch_leaves),
		TEST(the_timer_lets_them_leave),
		TEST(a_stream_seldom_needs_the_timer),
		TEST(a_stream_ends),
		TEST(a_stream_goes_on),
		TEST(another_address_lets_them_leave),
		TEST(local_ones_never_wait),
		TEST(a_thread_that_never_polls),
		TEST(a_full_socket),
		TEST(a_socket_that_stays_full),
		TEST(a_qp_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
