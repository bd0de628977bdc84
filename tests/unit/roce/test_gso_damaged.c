/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network in which only the first packet of each GSO batch arrives: after a few times packets are
 * sent one by one. With occasional losses, or late answers, GSO batches continue.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roce/gso.h"

#define BYTES (256 * 1024)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static unsigned dice, chance, batches;

static bool lose_all_but_first(struct rig_packet *packet, struct packet *decoded)
{
	batches += packet->in_batch && decoded->payload_bytes;
	return !packet->in_batch;
}

static bool lose_some(struct rig_packet *packet, struct packet *decoded)
{
	batches += packet->in_batch && decoded->payload_bytes;
	return (unsigned)rand_r(&dice) % 1000 >= chance;
}

/* Each test has another destination, so none is remembered. */
static void connect(void)
{
	static uint8_t host;

	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = 18,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.psn = 0xfffff0 });
	host++;
	roce_of(a)->flow.remote[13] = roce_of(a)->flow.local[13] = host;
	roce_of(b)->flow.remote[13] = roce_of(b)->flow.local[13] = host;
}

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	connect();
	batches = 0;
	return 0;
}

static void transfer(enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id)
{
	for (uint32_t i = 0; i < bytes; i++)
		here[i] = (uint8_t)(i * 7 + i / 251 + wr_id);
	for (uint32_t i = 0; i < bytes && opcode == IBV_WR_RDMA_READ; i++)
		there[i] = (uint8_t)(i * 13 + i / 700 + wr_id);
	pair_post(opcode, bytes, wr_id);
	rig_run(rig_now_ns + 2000 * MS);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, bytes);
}

static void test_writes_arrive(void **state)
{
	rig_on_packet = lose_all_but_first;
	transfer(IBV_WR_RDMA_WRITE, BYTES, 1);
	assert_true(roce_of(a)->flow.one_by_one);
	batches = 0;
	transfer(IBV_WR_RDMA_WRITE, BYTES, 2);
	assert_int_equal(batches, 0);
}

/* No packet follows a GSO batch of two, so no NAK reports the missing second one. */
static void test_short_messages_arrive(void **state)
{
	rig_on_packet = lose_all_but_first;
	for (uint64_t i = 0; i < 2 * GSO_STRIKES; i++)
		transfer(IBV_WR_RDMA_WRITE, 2000, i);
	assert_true(roce_of(a)->flow.one_by_one);
	assert_false(roce_of(b)->flow.one_by_one);
}

static void test_responses_arrive(void **state)
{
	rig_on_packet = lose_all_but_first;
	transfer(IBV_WR_RDMA_READ, BYTES, 1);
	assert_true(roce_of(b)->flow.one_by_one);
	batches = 0;
	transfer(IBV_WR_RDMA_READ, BYTES, 2);
	assert_int_equal(batches, 0);
}

static void test_short_responses_arrive(void **state)
{
	rig_on_packet = lose_all_but_first;
	for (uint64_t i = 0; i < 2 * GSO_STRIKES; i++)
		transfer(IBV_WR_RDMA_READ, 2000, i);
	assert_true(roce_of(b)->flow.one_by_one);
}

/* QPs that are connected there later begin so. */
static void test_is_remembered(void **state)
{
	struct wire_flow flow;

	rig_on_packet = lose_all_but_first;
	transfer(IBV_WR_RDMA_WRITE, BYTES, 1);
	flow = roce_of(a)->flow;
	roce_of(a)->flow.one_by_one = false;
	gso_start(roce_of(a));
	assert_true(roce_of(a)->flow.one_by_one);
	roce_of(a)->flow.remote[15]++;
	gso_start(roce_of(a));
	assert_false(roce_of(a)->flow.one_by_one);
	roce_of(a)->flow = flow;
}

static void test_losses_are_not_taken_for_it(void **state)
{
	static const unsigned chances[] = { 5, 20, 100 };

	rig_on_packet = lose_some;
	for (unsigned i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
		dice = chances[i];
		chance = chances[i];
		for (uint64_t n = 0; n < 40; n++) {
			transfer(IBV_WR_RDMA_WRITE, n % 2 ? 2000 : BYTES, n);
			transfer(IBV_WR_RDMA_READ, n % 2 ? 2000 : BYTES, n);
		}
	}
	assert_true(batches > 0);
	assert_false(roce_of(a)->flow.one_by_one);
	assert_false(roce_of(b)->flow.one_by_one);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
	const struct CMUnitTest tests[] = {
		TEST(writes_arrive),	TEST(short_messages_arrive),
		TEST(responses_arrive), TEST(short_responses_arrive),
		TEST(is_remembered),	TEST(losses_are_not_taken_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
