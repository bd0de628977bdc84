/* SPDX-License-Identifier: BSD-2-Clause */
/* The round-trip time as the requester measures it: RFC 6298's mean and deviation, and the least.
 */
#include "pair.h"
#include "roce/retransmit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES  4096
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define US     1000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.psn = 0xfffffe });
	return 0;
}

/* A WRITE whose acknowledgement arrives so much later. */
static void write_within(uint64_t ns, uint64_t wr_id)
{
	pair_post(IBV_WR_RDMA_WRITE, 8, wr_id);
	assert_true(rig_step());
	rig_now_ns += ns;
	roce_flush();
	while (rig_step())
		;
	pair_expect(wr_id, IBV_WC_SUCCESS);
}

static void expect_rtt(uint64_t mean_ns, uint64_t deviation_ns, uint64_t least_ns)
{
	const struct roce_qp *tq = roce_of(a);

	assert_int_equal(tq->rtt_ns, mean_ns);
	assert_int_equal(tq->rtt_var_ns, deviation_ns);
	assert_int_equal(tq->rtt_min_ns, least_ns);
}

static void test_first_and_later(void **state)
{
	static const struct {
		uint64_t sample, mean, deviation, least;
	} rows[] = {
		{ 80 * US, 80000, 40000, 80000 },
		{ 160 * US, 90000, 50000, 80000 }, /* + 80/8; 3/4 of 40 + 80/4 */
		{ 10 * US, 80000, 57500, 10000 },  /* - 80/8; 3/4 of 50 + 80/4, less late */
		{ 80 * US, 80000, 43125, 10000 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_within(rows[i].sample, i);
		expect_rtt(rows[i].mean, rows[i].deviation, rows[i].least);
	}
}

/* A clock that has not moved: 0 would stand for "not measured yet". */
static void test_no_time_is_a_time(void **state)
{
	write_within(0, 1);
	expect_rtt(1, 0, 1);
}

/* The least is that of this interval and the last one. */
static void test_path_becomes_longer(void **state)
{
	write_within(10 * US, 1);
	rig_now_ns += RETRANSMIT_RECENT_NS;
	write_within(200 * US, 2);
	assert_int_equal(roce_of(a)->rtt_recent_ns, 10 * US);
	rig_now_ns += RETRANSMIT_RECENT_NS;
	write_within(300 * US, 3);
	assert_int_equal(roce_of(a)->rtt_recent_ns, 200 * US);
	write_within(100 * US, 4);
	assert_int_equal(roce_of(a)->rtt_recent_ns, 100 * US);
}

static bool lose_once(struct rig_packet *packet, struct packet *decoded)
{
	rig_on_packet = NULL;
	return false;
}

/* Whether the first packet or the second was acknowledged is not known (Karn's algorithm). */
static void test_repeated_packets_do_not_count(void **state)
{
	write_within(80 * US, 1);
	pair_post(IBV_WR_RDMA_WRITE, 8, 2);
	rig_on_packet = lose_once;
	rig_run(rig_now_ns + 1000 * 1000 * US);
	pair_expect(2, IBV_WC_SUCCESS);
	expect_rtt(80000, 40000, 80000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(first_and_later),
		TEST(no_time_is_a_time),
		TEST(path_becomes_longer),
		TEST(repeated_packets_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
