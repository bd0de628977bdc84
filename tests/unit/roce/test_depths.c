/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * max_rd_atomic and max_dest_rd_atomic: rings as long as they say, other values after RESET and in
 * SQD, and what happens without memory for them.
 */
#include "pair.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/depth.h"

#define BYTES 65536
#define PSN   0xfffff0
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

#define ATOMIC_ACKNOWLEDGE 0x12

static uint64_t here[BYTES / 8] PAIR_ALIGNED, there[BYTES / 8] PAIR_ALIGNED;
static unsigned without_memory; /* so many rings from now on, and then one, find none */
static bool is_short;

void *__real_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn);
void *__wrap_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn);

void *__wrap_depth_widen(const struct depth_ring *ring, uint32_t slots, uint32_t qpn)
{
	if (is_short && !without_memory--)
		return NULL;
	return __real_depth_widen(ring, slots, qpn);
}

static void connect(uint8_t depth, bool receives_only)
{
	rig_connect(a, b,
		    &(struct rig_options){ .access = ACCESS,
					   .timeout = 14,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .min_rnr_timer = 12,
					   .rd_atomic = depth,
					   .psn = PSN,
					   .receives_only = receives_only });
}

static void connect_again(uint8_t depth)
{
	connect(depth, false);
}

static int setup(void **state)
{
	is_short = false;
	pair_regions(here, there, BYTES, ACCESS);
	for (unsigned i = 0; i < BYTES / 8; i++)
		there[i] = i;
	a = rig_qp(&rig, IBV_QPT_RC);
	b = rig_qp(&rig, IBV_QPT_RC);
	return 0;
}

static void run(void)
{
	rig_run(rig_now_ns + 200 * MS);
}

/*
 * READs and FETCH_ADDs in turn, each for a word of its own. By one post: small ones that are posted
 * one by one wait for half of those under way (waits_for_responses).
 */
static void post_each(unsigned first, unsigned count, unsigned step)
{
	lock_acquire(&a->lock);
	for (unsigned i = first; count--; i += step) {
		struct ibv_sge sge = { (uintptr_t)&here[i], 8, here_mr->ib.lkey };
		uintptr_t target = (uintptr_t)&there[i];
		struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		here[i] = 0;
		if (i % 2) {
			wr.opcode = IBV_WR_RDMA_READ;
			wr.wr.rdma.remote_addr = target;
			wr.wr.rdma.rkey = there_mr->ib.rkey;
		} else {
			wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			wr.wr.atomic.remote_addr = target;
			wr.wr.atomic.rkey = there_mr->ib.rkey;
			wr.wr.atomic.compare_add = 1000;
		}
		assert_int_equal(sq_push(&a->sq, &wr), 0);
	}
	a->path->issue(a);
	lock_release(&a->lock);
}

static void post_all(unsigned first, unsigned count)
{
	post_each(first, count, 1);
}

static void expect_all(unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++) {
		pair_expect(i, IBV_WC_SUCCESS);
		assert_int_equal(here[i], i);
		assert_int_equal(there[i], i % 2 ? i : i + 1000);
	}
	assert_true(rig_is_quiet(&rig));
}

static unsigned outstanding(void)
{
	return roce_of(a)->outstanding_tail - roce_of(a)->outstanding_head;
}

static int change(struct qp *qp, enum ibv_qp_state state, uint8_t depth)
{
	struct ibv_qp_attr attr = { .qp_state = state,
				    .max_rd_atomic = depth,
				    .max_dest_rd_atomic = depth };

	return qp_modify(qp, &attr,
			 IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC);
}

/* The connection that follows has its own values, larger or smaller. */
static void test_other_depths_after_reset(void **state)
{
	static const uint8_t depths[] = { 1, LIMIT_QP_RD_ATOM, 3, 1, 5 };

	for (unsigned i = 0; i < sizeof(depths); i++) {
		unsigned first = 100 * i;

		connect_again(depths[i]);
		post_all(first, 40);
		assert_int_equal(outstanding(), depths[i]);
		run();
		expect_all(first, 40);
		/* some are under way, and responses to others are owed */
		post_all(first + 40, 10);
		rig_full_after = 0;
		while (rig_step())
			;
		rig_full_after = UINT32_MAX;
		rig_modify(a, IBV_QPS_RESET);
		rig_modify(b, IBV_QPS_RESET);
		run();
		assert_true(rig_is_quiet(&rig));
	}
}

/* A QP has no more memory for them than it asked for. */
static void test_rings_are_as_long_as_asked(void **state)
{
	connect_again(1);
	assert_int_equal(roce_of(a)->outstanding_slots, 1);
	assert_int_equal(roce_of(a)->responses.slots, 1);
	assert_int_equal(roce_of(a)->replays.slots, 1);
	assert_int_equal(roce_of(a)->saved_slots, 16);
	rig_modify(a, IBV_QPS_RESET);
	rig_modify(b, IBV_QPS_RESET);
	connect_again(5);
	assert_int_equal(roce_of(a)->outstanding_slots, 8);
	assert_int_equal(roce_of(a)->responses.slots, 8);
	/* but for the limit, which is that of the attribute */
	post_all(0, 20);
	assert_int_equal(outstanding(), 5);
	run();
	expect_all(0, 20);
}

/* A responder has all that it needs from RTR on. */
static void test_responder_in_rtr(void **state)
{
	connect(5, true);
	assert_int_equal(roce_of(b)->responses.slots, 8);
	assert_null(roce_of(b)->outstanding);
	post_all(0, 20);
	run();
	expect_all(0, 20);
}

/* In SQD both ends may change; what is under way and what is owed stays, in order. */
static void test_more_in_sqd(void **state)
{
	connect_again(3);
	post_all(0, 20);
	rig_full_after = 0; /* b owes its responses */
	while (rig_step())
		;
	roce_flush();
	assert_int_equal(roce_of(b)->responses.tail - roce_of(b)->responses.head, 3);
	rig_modify(a, IBV_QPS_SQD);
	rig_modify(b, IBV_QPS_SQD);
	assert_int_equal(change(a, IBV_QPS_SQD, 12), 0);
	assert_int_equal(change(b, IBV_QPS_SQD, 12), 0);
	assert_int_equal(outstanding(), 3);
	rig_full_after = UINT32_MAX;
	rig_modify(b, IBV_QPS_RTS);
	rig_modify(a, IBV_QPS_RTS);
	assert_int_equal(outstanding(), 12);
	run();
	expect_all(0, 20);
}

/* Likewise fewer: those under way finish, and only then are there so few. */
static void test_fewer_in_sqd(void **state)
{
	connect_again(12);
	post_all(0, 20);
	assert_int_equal(outstanding(), 12);
	rig_modify(a, IBV_QPS_SQD);
	assert_int_equal(change(a, IBV_QPS_SQD, 2), 0);
	rig_modify(a, IBV_QPS_RTS);
	assert_int_equal(outstanding(), 12);
	run();
	expect_all(0, 20);
	post_all(20, 10);
	assert_int_equal(outstanding(), 2);
	run();
	expect_all(20, 10);
}

static bool lose_atomics(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->opcode != ATOMIC_ACKNOWLEDGE;
}

/* A repeated atomic finds its result in the longer ring, and is not executed again. */
static void test_results_of_atomics_move(void **state)
{
	connect_again(3);
	post_all(0, 8);
	run();
	expect_all(0, 8);
	rig_on_packet = lose_atomics;
	post_each(10, 3, 2);
	while (rig_step())
		roce_flush();
	assert_int_equal(there[14], 1014);
	rig_on_packet = NULL;
	rig_modify(b, IBV_QPS_SQD);
	assert_int_equal(change(b, IBV_QPS_SQD, LIMIT_QP_RD_ATOM), 0);
	run();
	for (unsigned i = 10; i <= 14; i += 2) {
		pair_expect(i, IBV_WC_SUCCESS);
		assert_int_equal(here[i], i);
		assert_int_equal(there[i], i + 1000);
	}
}

/* Places stay in order when the counts of all rings wrap, also if the depth is no power of 2. */
static void test_counts_wrap(void **state)
{
	struct roce_qp *tq;

	connect_again(6);
	tq = roce_of(a);
	tq->outstanding_head = tq->outstanding_tail = UINT32_MAX - 3;
	tq = roce_of(b);
	tq->responses.head = tq->responses.tail = UINT32_MAX - 3;
	tq->replays.head = tq->replays.tail = UINT32_MAX - 3;
	tq->saved_next = UINT32_MAX - 3;
	rig_on_packet = lose_atomics;
	post_all(0, 12);
	while (rig_step())
		roce_flush();
	rig_on_packet = NULL;
	run();
	expect_all(0, 12);
}

static struct ibv_qp_attr attributes_of(struct qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	qp_query(qp, &attr, &init);
	return attr;
}

/* Refused values change nothing; so does the want of memory, for each of the rings. */
static void test_refused(void **state)
{
	static const unsigned before_the_want[] = { 0, 1, 1, 1 };
	struct ibv_qp_attr before;

	connect_again(2);
	rig_modify(a, IBV_QPS_SQD);
	before = attributes_of(a);
	assert_int_equal(change(a, IBV_QPS_SQD, LIMIT_QP_RD_ATOM + 1), EINVAL);
	is_short = true;
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_qp_attr after;

		without_memory = before_the_want[i];
		assert_int_equal(change(a, IBV_QPS_SQD, LIMIT_QP_RD_ATOM), ENOMEM);
		after = attributes_of(a);
		assert_memory_equal(&before, &after, sizeof(before));
	}
	is_short = false;
	rig_modify(a, IBV_QPS_RTS);
	post_all(0, 20);
	assert_int_equal(outstanding(), 2);
	run();
	expect_all(0, 20);
}

/* RTS takes no such attribute (IBA 11.2.5.2): only SQD does. */
static void test_not_in_rts(void **state)
{
	connect_again(2);
	assert_int_equal(change(a, IBV_QPS_RTS, 4), EINVAL);
	assert_int_equal(attributes_of(a).max_rd_atomic, 2);
	assert_int_equal(attributes_of(a).max_dest_rd_atomic, 2);
}

/* RTR makes the responder's rings, RTS the requester's; without memory the QP stays. */
static void test_no_memory_on_the_way_to_rts(void **state)
{
	struct ibv_qp_attr attr = { .port_num = 1,
				    .qp_access_flags = ACCESS,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = b->ib.qp_num,
				    .ah_attr = { .is_global = 1, .port_num = 1 },
				    .max_rd_atomic = 8,
				    .max_dest_rd_atomic = 8 };
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(qp_modify(a, &attr, init), 0);
	is_short = true;
	for (unsigned i = 0; i < 3; i++) {
		attr.qp_state = IBV_QPS_RTR;
		attr.max_dest_rd_atomic = (uint8_t)(2u << i);
		without_memory = i;
		assert_int_equal(qp_modify(a, &attr, rtr), ENOMEM);
		assert_int_equal(qp_state(a), IBV_QPS_INIT);
		assert_int_equal(attributes_of(a).max_dest_rd_atomic, 0);
	}
	is_short = false;
	assert_int_equal(qp_modify(a, &attr, rtr), 0);
	attr.qp_state = IBV_QPS_RTS;
	is_short = true;
	without_memory = 0;
	assert_int_equal(qp_modify(a, &attr, rts), ENOMEM);
	assert_int_equal(qp_state(a), IBV_QPS_RTR);
	is_short = false;
	assert_int_equal(qp_modify(a, &attr, rts), 0);
	rig_modify(a, IBV_QPS_RESET);
	connect_again(4);
	post_all(0, 20);
	run();
	expect_all(0, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_other_depths_after_reset),
		TEST(test_rings_are_as_long_as_asked),
		TEST(test_responder_in_rtr),
		TEST(test_more_in_sqd),
		TEST(test_fewer_in_sqd),
		TEST(test_results_of_atomics_move),
		TEST(test_counts_wrap),
		TEST(test_refused),
		TEST(test_not_in_rts),
		TEST(test_no_memory_on_the_way_to_rts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
