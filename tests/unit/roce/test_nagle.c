/* SPDX-License-Identifier: BSD-2-Clause */
/* Small requests of a QP with many in flight wait for one another: requester_may_wait. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "roce/requester.h"

#define BYTES (64 * 1024)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static unsigned posted;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	posted = 0;
	rig_calls = 0;
	return 0;
}

static void connect(enum ibv_qp_type type, enum ibv_mtu mtu)
{
	pair_connect(type, &(struct rig_options){ .mtu = mtu,
						  .access = ACCESS,
						  .timeout = 14,
						  .retry_cnt = 7,
						  .rnr_retry = 7,
						  .rd_atomic = 16,
						  .psn = 0xfffff8 });
	roce_flush(); /* a thread that polls */
}

static void post(unsigned count, uint32_t bytes)
{
	for (unsigned i = 0; i < count; i++)
		pair_post(IBV_WR_RDMA_WRITE, bytes, posted++);
}

static void all_complete(void)
{
	rig_run(rig_now_ns + 100000000);
	for (unsigned i = 0; i < posted; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
}

static void test_those_posted_in_a_row_leave_together(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	post(REQUESTER_MANY, 8);
	assert_int_equal(rig_calls, REQUESTER_MANY);
	post(20, 8);
	assert_int_equal(rig_calls, REQUESTER_MANY);
	assert_true(roce_owes());
	roce_flush();
	assert_false(roce_owes());
	assert_int_equal(rig_calls, REQUESTER_MANY + 1);
	assert_int_equal(rig_call_packets[REQUESTER_MANY], 20);
	all_complete();
}

/* As where the progress thread takes the acknowledgements: its polls never find the CQ empty. */
static void test_those_of_a_thread_that_finds_completions_wait(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	post(REQUESTER_MANY, 8);
	roce_waits_left = 0;
	roce_on_completions();
	post(20, 8);
	assert_int_equal(rig_calls, REQUESTER_MANY);
	all_complete();
}

/* The thread that posted them need not come back. */
static void test_an_acknowledgement_lets_them_leave(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	post(REQUESTER_MANY + 5, 8);
	assert_int_equal(rig_waiting(), REQUESTER_MANY);
	while (rig_calls == REQUESTER_MANY) {
		if (!rig_step())
			roce_flush(); /* b's acknowledgement; then what it lets go */
		assert_true(rig_calls < 2 * REQUESTER_MANY);
	}
	all_complete();
}

/* All acknowledgements are lost. */
static bool lose(struct rig_packet *packet, struct packet *decoded)
{
	return rig_sent > REQUESTER_MANY;
}

static void test_a_probe_lets_them_leave(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	rig_on_packet = lose;
	post(REQUESTER_MANY + 5, 8);
	while (rig_step())
		;
	assert_int_equal(rig_calls, REQUESTER_MANY);
	all_complete();
	rig_on_packet = NULL;
}

static void test_a_batch_that_is_full_leaves(void **state)
{
	unsigned enough = (WIRE_GSO_BYTES + 4095) / 4096;

	connect(IBV_QPT_RC, IBV_MTU_4096);
	post(REQUESTER_MANY, 4096);
	post(enough - 1, 4096);
	assert_int_equal(rig_calls, REQUESTER_MANY);
	post(1, 4096);
	assert_int_equal(rig_calls, REQUESTER_MANY + 1); /* as much of it as the window takes */
	all_complete();
}

/* Responses come one by one; half of the READs that may be outstanding leave at a time. */
static void leave_in_halves(void (*post_one)(void))
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	for (unsigned i = 0; i < 48; i++)
		post_one();
	assert_int_equal(rig_calls, REQUESTER_MANY);
	roce_flush();
	assert_int_equal(rig_calls, REQUESTER_MANY + 1);
	assert_int_equal(rig_call_packets[REQUESTER_MANY], 16 - REQUESTER_MANY);
	while (rig_step())
		roce_flush();
	assert_int_equal(rig_calls, REQUESTER_MANY + 1 + 48 + (48 - 16) / 8);
	all_complete();
}

static void post_read(void)
{
	pair_post(IBV_WR_RDMA_READ, 8, posted++);
}

static void post_atomic(void)
{
	struct ibv_sge sge = { (uintptr_t)here, 8, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = posted++,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = { .remote_addr = (uintptr_t)there, .rkey = there_mr->ib.rkey },
	};

	rig_post_send(a, &wr);
}

static void test_reads(void **state)
{
	leave_in_halves(post_read);
}

static void test_atomics(void **state)
{
	leave_in_halves(post_atomic);
}

/* Requests that came together are answered in one call, by responses of one size. */
static void test_responses_leave_together(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	for (unsigned i = 0; i < 16; i++)
		pair_post(IBV_WR_RDMA_READ, 8, posted++);
	roce_flush();
	rig_calls = 0;
	for (unsigned i = 0; i < 16; i++)
		assert_true(rig_step());
	roce_flush();
	assert_int_equal(rig_calls, 1);
	assert_int_equal(rig_call_packets[0], 16);
	all_complete();
}

/* Those of several packets keep as many outstanding as they may. */
static void test_long_reads_do_not_wait(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	for (unsigned i = 0; i < 20; i++)
		pair_post(IBV_WR_RDMA_READ, 1025, posted++);
	roce_flush();
	assert_int_equal(rig_waiting(), 16);
	for (unsigned i = 0; i < 16; i++)
		assert_true(rig_step());
	roce_flush();
	assert_true(rig_step() && rig_step()); /* the first response */
	rig_calls = 0;
	roce_flush();
	assert_int_equal(rig_calls, 1);
	all_complete();
}

static void test_few_leave_at_once(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	for (unsigned i = 1; i <= REQUESTER_MANY; i++) {
		post(1, 8);
		assert_int_equal(rig_calls, i);
	}
	all_complete();
}

static void test_long_ones_leave_at_once(void **state)
{
	connect(IBV_QPT_RC, IBV_MTU_1024);
	post(REQUESTER_MANY + 3, 8);
	post(1, 1025);
	assert_int_equal(rig_waiting(), REQUESTER_MANY + 3 + 2);
	all_complete();
}

/* UC: no acknowledgement comes that would let them leave. */
static void test_unreliable_ones_leave_at_once(void **state)
{
	connect(IBV_QPT_UC, IBV_MTU_1024);
	post(2 * REQUESTER_MANY, 8);
	assert_int_equal(rig_waiting(), 2 * REQUESTER_MANY);
	rig_run(rig_now_ns + 100000000);
	for (unsigned i = 0; i < posted; i++)
		pair_expect(i, IBV_WC_SUCCESS);
}

/*
 * A thread that has not polled for long leaves no request waiting: it may go on posting to many
 * QPs.
 */
static void test_a_thread_that_does_not_poll(void **state)
{
	unsigned waited = 0;

	connect(IBV_QPT_RC, IBV_MTU_1024);
	post(REQUESTER_MANY + 1, 8);
	while (rig_calls == REQUESTER_MANY) {
		lock_acquire(&a->lock);
		a->path->issue(a);
		lock_release(&a->lock);
		assert_in_range(++waited, 1, 1000);
	}
	assert_in_range(waited, 100, 1000);
	post(1, 8);
	assert_int_equal(rig_calls, REQUESTER_MANY + 2);
	all_complete();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(those_posted_in_a_row_leave_together),
		TEST(those_of_a_thread_that_finds_completions_wait),
		TEST(an_acknowledgement_lets_them_leave),
		TEST(a_probe_lets_them_leave),
		TEST(a_batch_that_is_full_leaves),
		TEST(reads),
		TEST(atomics),
		TEST(responses_leave_together),
		TEST(long_reads_do_not_wait),
		TEST(few_leave_at_once),
		TEST(long_ones_leave_at_once),
		TEST(unreliable_ones_leave_at_once),
		TEST(a_thread_that_does_not_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
