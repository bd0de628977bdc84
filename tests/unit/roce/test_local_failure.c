/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request whose memory is gone when the requester goes back, although the responder has executed
 * it: acknowledgements that come late say so.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "object/mw.h"

#define BYTES  65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND)
#define MS     1000000ull
#define PSN    0xfffffe
#define LONG   4096 /* four packets */

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED, other[LONG] PAIR_ALIGNED;
static struct mr *other_mr;
static unsigned lost[8];

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC,
		     &(struct rig_options){
			     .access = ACCESS, .timeout = 14, .retry_cnt = 7, .psn = PSN });
	other_mr = rig_mr(&rig, other, sizeof(other), ACCESS);
	return 0;
}

static int teardown(void **state)
{
	return pair_teardown(state);
}

/* The program has given up the memory of the request. */
static void deregister(void)
{
	assert_int_equal(mr_destroy(other_mr), 0);
}

static void post_of_other(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)other, LONG, other_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)there + LONG, .rkey = there_mr->ib.rkey },
	};

	rig_post_send(a, &wr);
}

static void post_bind(uint64_t wr_id, struct mw *window)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = &window->ib,
			     .rkey = window->ib.rkey + 1,
			     .bind_info = { .mr = &there_mr->ib,
					    .addr = (uintptr_t)there,
					    .length = 8,
					    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};

	rig_post_send(a, &wr);
}

/* So many packets arrive; then their acknowledgement is on the way, behind what waits. */
static void deliver(unsigned packets)
{
	for (unsigned i = 0; i < packets; i++)
		assert_true(rig_step());
	roce_flush();
}

/* Nothing is heard for so long that the requester probes. */
static void probe(void)
{
	rig_now_ns += 6 * MS;
	roce_run(rig_now_ns);
}

/* All complete: the first `good` ones with success, the next one with its error, the rest flushed.
 */
static void expect(unsigned count, unsigned good)
{
	rig_run(rig_now_ns + 60000 * MS);
	for (unsigned i = 1; i <= count; i++)
		pair_expect(i, i <= good       ? IBV_WC_SUCCESS
			       : i == good + 1 ? IBV_WC_LOC_PROT_ERR
					       : IBV_WC_WR_FLUSH_ERR);
	assert_true(rig_is_quiet(&rig));
	assert_int_equal(qp_state(a), good < count ? IBV_QPS_ERR : IBV_QPS_RTS);
}

/* The probe was spurious: what was in flight behind the request counts as in flight again. */
static void test_spurious_probe(void **state)
{
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	post_of_other(IBV_WR_RDMA_WRITE, 2);
	pair_post(IBV_WR_RDMA_WRITE, LONG, 3);
	assert_int_equal(rig_waiting(), 9);
	deregister();
	probe();
	deliver(5);
	expect(3, 3);
}

/* The request behind it, of 8 packets, loses the last 4 once; each has what the request has. */
static bool lose_half_of_third(struct rig_packet *packet, struct packet *decoded)
{
	int32_t index = psn_diff(decoded->psn, psn_of(PSN + 5));

	if (decoded->dest_qpn != b->ib.qp_num || index < 0)
		return true;
	assert_in_range(index, 0, 7);
	assert_int_equal(decoded->payload_bytes, 1024);
	assert_memory_equal(decoded->payload, here + index * 1024, 1024);
	return index < 4 || lost[index]++;
}

static void test_loss_behind_a_spurious_probe(void **state)
{
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	post_of_other(IBV_WR_RDMA_WRITE, 2);
	pair_post(IBV_WR_RDMA_WRITE, 2 * LONG, 3);
	deregister();
	probe();
	deliver(5);
	memset(lost, 0, sizeof(lost));
	rig_on_packet = lose_half_of_third;
	expect(3, 3);
}

/* Behind it is a request that this end executed by itself before it went back. */
static void test_bind_behind_a_late_answer(void **state)
{
	struct mw *window;

	assert_int_equal(mw_create(rig.pd, IBV_MW_TYPE_2, &window), 0);
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	post_of_other(IBV_WR_RDMA_WRITE, 2);
	post_bind(3, window);
	deregister();
	probe();
	deliver(5);
	expect(3, 3);
	assert_int_equal(mw_destroy(window), 0);
}

/* It comes to its turn again, and cannot be sent. */
static void lose_key_of(enum ibv_wr_opcode second)
{
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	post_of_other(second, 2);
	pair_post(IBV_WR_RDMA_WRITE, LONG, 3);
	deregister();
	probe();
}

static bool lose_half_of_second(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->dest_qpn != b->ib.qp_num || psn_diff(decoded->psn, psn_of(PSN)) < 3;
}

/* Half of the request arrived, and the other half cannot be sent again. */
static void test_half_of_it(void **state)
{
	lose_key_of(IBV_WR_RDMA_WRITE);
	rig_on_packet = lose_half_of_second;
	expect(3, 1);
}

/* There is no place for the response. */
static void test_a_read(void **state)
{
	lose_key_of(IBV_WR_RDMA_READ);
	expect(3, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(spurious_probe),
		TEST(loss_behind_a_spurious_probe),
		TEST(bind_behind_a_late_answer),
		TEST(half_of_it),
		TEST(a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
