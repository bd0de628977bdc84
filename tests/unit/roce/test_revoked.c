/* SPDX-License-Identifier: BSD-2-Clause */
/* READs that can no longer be answered, and those that still can, though a later request is
 * refused. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES  65536
#define PSN    0xfffffe
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MS     1000000ull

#define READ_REQUEST 0x0c
#define LONG	     (20 * 1024)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static uint32_t rkey;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rd_atomic = 16,
							.psn = PSN });
	rkey = there_mr->ib.rkey;
	return 0;
}

static void revoke(bool revoked)
{
	key_entry(KEY_INDEX(rkey))->key = revoked ? 0 : rkey;
}

static void run(void)
{
	rig_run(rig_now_ns + 100 * MS);
}

static void repeat_first_read(void)
{
	rig_inject(a,
		   &(struct packet){ .opcode = READ_REQUEST,
				     .psn = psn_of(PSN),
				     .va = (uintptr_t)there,
				     .rkey = rkey,
				     .length = 4 },
		   NULL);
	assert_true(rig_step());
	roce_flush();
}

/* The requester has the first response, and has revoked the key of the READ since. */
static void test_a_duplicate_read_of_a_revoked_key(void **state)
{
	pair_post(IBV_WR_RDMA_READ, 4, 1);
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	rig_full_after = 0;
	repeat_first_read();
	assert_int_equal(rig_waiting(), 0);
	revoke(true);
	rig_full_after = UINT32_MAX;
	run();
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
	revoke(false);
	pair_post(IBV_WR_RDMA_READ, 4, 2);
	run();
	pair_expect(2, IBV_WC_SUCCESS);
}

/* A long READ and a WRITE without rights; the socket takes a part of what is owed to the READ. */
static void refuse_behind_a_read(void)
{
	struct ibv_sge sge = { (uintptr_t)here, 4, here_mr->ib.lkey };
	struct ibv_send_wr write = {
		.wr_id = 2,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there, .rkey = rkey + 1 },
	};

	pair_post(IBV_WR_RDMA_READ, LONG, 1);
	rig_post_send(a, &write);
	while (rig_waiting() > 1) /* a READ is more than one request */
		assert_true(rig_step());
	rig_full_after = 10;
	assert_true(rig_step());
	roce_flush();
	assert_int_equal(qp_state(b), IBV_QPS_ERR);
	assert_int_equal(rig_waiting(), 10);
	rig_full_after = UINT32_MAX;
}

static void test_a_refused_request_behind_a_read(void **state)
{
	refuse_behind_a_read();
	run();
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(here, there, LONG);
}

/* The READ can no longer be answered: it is the one that is refused. */
static void test_a_revoked_key_ahead_of_a_refused_request(void **state)
{
	refuse_behind_a_read();
	revoke(true);
	run();
	revoke(false);
	pair_expect(1, IBV_WC_REM_ACCESS_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
}

/* The later request was refused for another reason than the READ is. */
static void test_a_revoked_key_ahead_of_a_long_send(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, 4, there_mr->ib.lkey };

	rig_post_receive(b, 9, &sge);
	pair_post(IBV_WR_RDMA_READ, LONG, 1);
	pair_post(IBV_WR_SEND, 8, 2);
	while (rig_waiting() > 1)
		assert_true(rig_step());
	rig_full_after = 10;
	assert_true(rig_step());
	roce_flush();
	pair_expect(9, IBV_WC_LOC_LEN_ERR);
	rig_full_after = UINT32_MAX;
	revoke(true);
	run();
	revoke(false);
	pair_expect(1, IBV_WC_REM_ACCESS_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(a_duplicate_read_of_a_revoked_key),
		TEST(a_refused_request_behind_a_read),
		TEST(a_revoked_key_ahead_of_a_refused_request),
		TEST(a_revoked_key_ahead_of_a_long_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
