/* SPDX-License-Identifier: BSD-2-Clause */
/* A path with a long round trip: how much a stream of WRITEs brings through in each. */
#include "pair.h"
#include "roce/retransmit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BYTES	    (64 * 1024)
#define POSTED	    60
#define OUTSTANDING 16 /* READs */
#define ACCESS	    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define TRIPS	    40
#define USER	    (208 * 1024)     /* SO_RCVBUF of a usual system's users */
#define LARGE	    (2 * (8u << 20)) /* of 8 MiB: the kernel doubles it */

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static uint32_t max; /* the window's */
static uint64_t trip_ns;

static int setup(void **state)
{
	trip_ns = 1000000;
	pair_regions(here, there, BYTES, ACCESS);
	return 0;
}

/* What is on the way arrives at the other end, half a round trip later. */
static void pass(void)
{
	uint32_t count = rig_waiting();

	rig_now_ns += trip_ns / 2;
	for (uint32_t i = 0; i < count; i++)
		assert_true(i % 16 < 15 && i + 1 < count ? rig_step_more() : rig_step());
	roce_flush();
	roce_run(rig_now_ns); /* more turns of a responder */
}

/* Bytes that complete in the last of TRIPS round trips; the receiver's buffer is never exceeded. */
static uint64_t stream(enum ibv_wr_opcode opcode, uint32_t buffer)
{
	uint64_t bytes = 0, posted = 0, done = 0;

	rig_buffer_bytes = buffer;
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .mtu = IBV_MTU_1024,
							.access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.rd_atomic = OUTSTANDING });
	for (unsigned trip = 0; trip < TRIPS; trip++) {
		while (posted < done + POSTED)
			pair_post(opcode, BYTES, posted++);
		pass();
		pass();
		for (bytes = 0; !rig_is_quiet(&rig); bytes += BYTES)
			pair_expect(done++, IBV_WC_SUCCESS);
	}
	max = roce_of(a)->window.max;
	rig_run(rig_now_ns + 100 * trip_ns);
	while (!rig_is_quiet(&rig))
		pair_expect(done++, IBV_WC_SUCCESS);
	assert_int_equal(done, posted);
	return bytes;
}

/* 2 GB/s at least, which is more than these sockets bring through on one processor. */
static void test_large_buffers(void **state)
{
	assert_in_range(stream(IBV_WR_RDMA_WRITE, LARGE), 2000000, LARGE / 4);
	assert_int_equal(max, roce_of(a)->window.most);
}

/* Longer than a quarter of the time-out: no acknowledgement comes late by that. */
static void test_very_long_path(void **state)
{
	trip_ns = 60000000;
	assert_in_range(stream(IBV_WR_RDMA_WRITE, LARGE), 2000000, LARGE / 4);
}

static void test_path_of_almost_the_timeout(void **state)
{
	trip_ns = 170000000;
	assert_in_range(stream(IBV_WR_RDMA_WRITE, LARGE), 2000000, LARGE / 4);
}

/* So many WRITEs are outstanding, and so much time passes. */
static void keep_writing(uint64_t *posted, uint64_t *done, uint64_t ns)
{
	uint64_t until_ns = rig_now_ns + ns;

	while (rig_now_ns < until_ns) {
		while (*posted < *done + POSTED)
			pair_post(IBV_WR_RDMA_WRITE, BYTES, (*posted)++);
		pass();
		while (!rig_is_quiet(&rig))
			pair_expect((*done)++, IBV_WC_SUCCESS);
	}
}

/* Each acknowledgement counts as late, for two intervals; then the window grows. */
static void test_path_becomes_longer(void **state)
{
	uint64_t posted = 0, done = 0;
	uint32_t size;

	rig_buffer_bytes = LARGE;
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .mtu = IBV_MTU_1024,
							.access = ACCESS,
							.timeout = 14,
							.retry_cnt = 7,
							.rnr_retry = 7 });
	keep_writing(&posted, &done, 10 * trip_ns);
	trip_ns = 60000000;
	keep_writing(&posted, &done, 2 * RETRANSMIT_RECENT_NS + 2 * trip_ns);
	size = roce_of(a)->window.size;
	keep_writing(&posted, &done, 20 * trip_ns);
	assert_true(roce_of(a)->window.size > 2 * size);
	rig_run(rig_now_ns + 100 * trip_ns);
}

/* Those that may be outstanding are the bound here. */
static void test_reads(void **state)
{
	assert_int_equal(stream(IBV_WR_RDMA_READ, LARGE), OUTSTANDING * BYTES);
}

/* A full window fits the buffer of an ordinary user, whatever the path. */
static void test_small_buffers(void **state)
{
	assert_in_range(stream(IBV_WR_RDMA_WRITE, USER), BYTES, USER);
	assert_int_equal(max, roce_of(a)->window.max_short);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(large_buffers),	   TEST(very_long_path), TEST(path_of_almost_the_timeout),
		TEST(path_becomes_longer), TEST(reads),		 TEST(small_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
