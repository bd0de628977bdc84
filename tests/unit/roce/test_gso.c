/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many packets a requester sends at once: full GSO batches, and no short ones because the
 * window opens a little.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES  (1024 * 1024)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define MS     1000000ull
#define BUFFER (16u << 20)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	rig_buffer_bytes = BUFFER;
	return 0;
}

/* An idle connection with a window of this size; 0: the maximum. */
static void connect(enum ibv_mtu mtu, uint32_t window)
{
	struct roce_qp *tq;

	pair_connect(IBV_QPT_RC, &(struct rig_options){ .mtu = mtu,
							.access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.psn = 0xfffff0 });
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	rig_run(rig_now_ns + MS);
	pair_expect(1, IBV_WC_SUCCESS);
	tq = roce_of(a);
	if (window > tq->window.max)
		tq->window.max = tq->window.max_short = tq->window.most = window;
	tq->window.size = window ? window : tq->window.max;
	rig_calls = 0;
}

static void finish(uint32_t bytes)
{
	rig_run(rig_now_ns + 100 * MS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, bytes);
}

static void expect_calls(const uint32_t *packets, uint32_t count)
{
	assert_int_equal(rig_calls, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(rig_call_packets[i], packets[i]);
}

/*
 * 62 packets of 1024 bytes of payload are a GSO batch, 15 of 4096; there is no room for a fifth of
 * those.
 */
static void test_sends(void **state)
{
	static const uint32_t small[] = { 62, 62, 62, 62, 8 }, large[] = { 60, 60, 60, 60, 16 };
	struct ibv_sge sge = { (uintptr_t)there, BYTES, there_mr->ib.lkey };

	connect(IBV_MTU_1024, 0);
	rig_post_receive(b, 7, &sge);
	pair_post(IBV_WR_SEND, 256 * 1024, 2);
	expect_calls(small, 5);
	rig_run(rig_now_ns + 100 * MS);
	pair_expect(7, IBV_WC_SUCCESS);
	finish(256 * 1024);
	assert_int_equal(qp_destroy(a), 0);
	assert_int_equal(qp_destroy(b), 0);

	connect(IBV_MTU_4096, 256);
	rig_post_receive(b, 7, &sge);
	pair_post(IBV_WR_SEND, BYTES, 2);
	expect_calls(large, 5);
	rig_run(rig_now_ns + 100 * MS);
	pair_expect(7, IBV_WC_SUCCESS);
	finish(BYTES);
}

/* WRITEs, all issued at once: a program may post a list of them. */
static void post_writes(uint64_t count, uint32_t bytes)
{
	struct ibv_sge sge = { (uintptr_t)here, bytes, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there, .rkey = there_mr->ib.rkey },
	};

	lock_acquire(&a->lock);
	for (; wr.wr_id < count; wr.wr_id++)
		assert_int_equal(sq_push(&a->sq, &wr), 0);
	a->path->issue(a);
	lock_release(&a->lock);
}

static void expect_completions(uint64_t count)
{
	rig_run(rig_now_ns + 100 * MS);
	for (uint64_t wr_id = 0; wr_id < count; wr_id++)
		pair_expect(wr_id, IBV_WC_SUCCESS);
}

/*
 * FIRST is longer, and begins a GSO batch that the next packet ends. The next batch in the same
 * call is full, so messages of 64 KiB are two GSO batches each.
 */
static void test_write(void **state)
{
	static const uint32_t packets[] = { 64, 62, 62, 62, 6 }, messages[] = { 64, 64, 64 };
	static const uint32_t shorter[] = { 40, 40, 40 };

	connect(IBV_MTU_1024, 0);
	pair_post(IBV_WR_RDMA_WRITE, 256 * 1024, 2);
	expect_calls(packets, 5);
	finish(256 * 1024);

	rig_calls = 0;
	post_writes(3, 64 * 1024);
	expect_calls(messages, 3);
	expect_completions(3);

	rig_calls = 0;
	post_writes(3, 40 * 1024);
	expect_calls(shorter, 3);
	expect_completions(3);
}

/*
 * Messages of a long packet and a short one leave in one call: each short one ends a GSO batch, no
 * burst.
 */
static void test_short_ends(void **state)
{
	static const uint32_t packets[] = { 40 };

	connect(IBV_MTU_1024, 0);
	post_writes(20, 1025);
	expect_calls(packets, 1);
	expect_completions(20);
}

static uint32_t calls_of(uint32_t packets)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < rig_calls; i++)
		count += rig_call_packets[i] == packets;
	return count;
}

/*
 * The rest of the window is too small for the next message, which waits for an acknowledgement, so
 * that it leaves in one burst; unless the window is too small to leave room unused.
 */
static void test_write_waits_for_its_burst(void **state)
{
	static const uint32_t some[] = { 64, 64, 64, 64 }, all[] = { 64, 64, 52 };

	connect(IBV_MTU_1024, 300);
	post_writes(5, 64 * 1024);
	expect_calls(some, 4);
	expect_completions(5);
	assert_int_equal(calls_of(64), 5);
	assert_int_equal(calls_of(1) + 5, rig_calls); /* acknowledgements */

	rig_calls = 0;
	roce_of(a)->window.size = 180;
	post_writes(3, 64 * 1024);
	expect_calls(all, 3);
	expect_completions(3);
}

static void step(void)
{
	assert_true(rig_step());
	roce_flush();
}

/* Acknowledgements come for 16 packets each; a quarter of the window has to be open. */
static void test_waits_for_room(void **state)
{
	const uint32_t window = 128;

	connect(IBV_MTU_1024, window);
	roce_of(a)->window.threshold = 1; /* it hardly grows */
	pair_post(IBV_WR_RDMA_WRITE, 256 * 1024, 2);
	assert_int_equal(rig_waiting(), window);
	for (uint32_t i = 0; i < window; i++)
		step();
	assert_int_equal(rig_waiting(), window / 16);
	rig_calls = 0;
	step();
	assert_int_equal(rig_calls, 0);
	step();
	assert_int_equal(rig_calls, 1);
	assert_int_equal(rig_call_packets[0], window / 4);
	finish(256 * 1024);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
	const struct CMUnitTest tests[] = { TEST(sends), TEST(write), TEST(short_ends),
					    TEST(write_waits_for_its_burst), TEST(waits_for_room) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
