/* SPDX-License-Identifier: BSD-2-Clause */
/* What a requester, a responder and a path do not take. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/cause.h"

#define BYTES 4096
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	cause_init(rig.arena);
	return 0;
}

static int teardown(void **state)
{
	cause_init(NULL);
	return pair_teardown(state);
}

static void connect(enum ibv_qp_type type)
{
	pair_connect(type, &(struct rig_options){ .access = ACCESS,
						  .timeout = 12,
						  .retry_cnt = 3,
						  .rnr_retry = 7,
						  .min_rnr_timer = 12,
						  .psn = 77 });
}

/* How often this cause was reported, of QP a. */
static unsigned reports_of(enum cause cause)
{
	uint64_t told = atomic_load(&arena_header(rig.arena)->cause_next);
	unsigned count = 0;

	for (uint64_t i = 0; i < told && i < ARENA_CAUSES; i++) {
		struct arena_cause entry;

		if (cause_read(&arena_causes(rig.arena)[i], &entry))
			count += entry.cause == cause && entry.qpn == a->ib.qp_num;
	}
	return count;
}

/* The path's MTU is less than the QP's: the packets are as good as lost, and the QP says so once.
 */
static void test_packets_too_long_for_the_path(void **state)
{
	connect(IBV_QPT_RC);
	rig_full_after = 0;
	rig_refusal = WIRE_TOO_LONG;
	pair_post(IBV_WR_RDMA_WRITE, 1024, 1);
	rig_run(rig_now_ns + 1000 * MS);
	assert_int_equal(rig_sent, 0);
	pair_expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(reports_of(CAUSE_PATH_TOO_NARROW), 1);
}

/* The route changes meanwhile, before the tries are used up. */
static void test_path_gets_wider(void **state)
{
	connect(IBV_QPT_RC);
	rig_full_after = 0;
	rig_refusal = WIRE_TOO_LONG;
	pair_post(IBV_WR_RDMA_WRITE, 1024, 1);
	rig_run(rig_now_ns + 20 * MS);
	assert_true(rig_is_quiet(&rig));
	rig_full_after = UINT32_MAX;
	rig_run(rig_now_ns + 1000 * MS);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 1024);
}

/* UC has no SEND with invalidate (IBA 9.4.1.1.2). What is before it leaves. */
static void test_opcode_without_packet(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND_WITH_INV };

	connect(IBV_QPT_UC);
	rig_post_receive(b, 10, NULL);
	pair_post(IBV_WR_RDMA_WRITE, 1024, 1);
	rig_post_send(a, &wr);
	rig_run(rig_now_ns + MS);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(rig_sent, 1);
	assert_memory_equal(here, there, 1024);
	assert_int_equal(reports_of(CAUSE_OPCODE_UNSUPPORTED), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(packets_too_long_for_the_path),
		TEST(path_gets_wider),
		TEST(opcode_without_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
