/* SPDX-License-Identifier: BSD-2-Clause */
/* When a requester gives up: only after time-outs in which it could have received an answer. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES	   4096
#define ACCESS	   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define MS	   1000000ull
#define TIMEOUT	   12 /* 16.8 ms */
#define TIMEOUT_NS (4096ull << TIMEOUT)
#define LONGEST	   0 /* RNR timer code: 655 ms */

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	return 0;
}

static void connect(uint8_t retry_cnt)
{
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = TIMEOUT,
							.retry_cnt = retry_cnt,
							.rnr_retry = 7,
							.min_rnr_timer = LONGEST,
							.psn = 7 });
}

static bool lose_all(struct rig_packet *packet, struct packet *decoded)
{
	return false;
}

/* Runs the timers some time later, before any packet is delivered. */
static void look_after(uint64_t ns)
{
	rig_now_ns += ns;
	roce_run(rig_now_ns);
}

/* The process was preempted: the answer came in time, and is read late. */
static void test_nobody_looked(void **state)
{
	connect(0);
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	look_after(20 * TIMEOUT_NS);
	assert_true(rig_is_quiet(&rig));
	rig_run(rig_now_ns + MS);
	pair_expect(1, IBV_WC_SUCCESS);
}

/* A requester that is always late gives up, too. */
static void test_nobody_ever_looks(void **state)
{
	unsigned looks = 0;

	connect(2);
	rig_on_packet = lose_all;
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	while (rig_is_quiet(&rig)) {
		look_after(3 * TIMEOUT_NS);
		assert_in_range(++looks, 1, 6);
	}
	pair_expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(looks, 3, 6);
}

/* A responder that asks for more time than the transport timer's gets it. */
static void test_refused_for_longer_than_the_timer(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, 8, there_mr->ib.lkey };

	connect(0);
	/* the first of two is lost, so that the requester goes back before the RNR NAK */
	pair_post(IBV_WR_SEND, 8, 1);
	rig_on_packet = lose_all;
	rig_step();
	rig_on_packet = NULL;
	pair_post(IBV_WR_SEND, 8, 2);
	rig_run(rig_now_ns + MS);
	rig_post_receive(b, 10, &sge);
	rig_post_receive(b, 11, &sge);
	rig_now_ns = roce_deadline_ns();
	while (rig_waiting() == 0) { /* until it tries again */
		assert_true(roce_deadline_ns() != TRANSPORT_NEVER);
		rig_now_ns = roce_deadline_ns();
		roce_run(rig_now_ns);
	}
	look_after(TIMEOUT_NS / 2);
	assert_true(rig_is_quiet(&rig));
	rig_run(rig_now_ns + MS);
	pair_expect(10, IBV_WC_SUCCESS);
	pair_expect(11, IBV_WC_SUCCESS);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
}

/* Time while the socket is full does not count. */
static void test_held_up(void **state)
{
	connect(0);
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	rig_on_packet = lose_all;
	rig_step();
	rig_on_packet = NULL;
	rig_full_after = 0;
	for (unsigned i = 0; i < 500; i++) /* it probes, and cannot */
		look_after(MS / 5);
	assert_true(rig_is_quiet(&rig));
	rig_full_after = UINT32_MAX;
	look_after(MS / 5);
	assert_int_equal(rig_waiting(), 1);
	look_after(TIMEOUT_NS / 2);
	assert_true(rig_is_quiet(&rig));
	rig_run(rig_now_ns + MS);
	pair_expect(1, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(nobody_looked),
		TEST(nobody_ever_looks),
		TEST(refused_for_longer_than_the_timer),
		TEST(held_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
