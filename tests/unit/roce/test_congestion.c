/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion: CNPs are Not-ECT and cause no CNPs; responses leave no faster than signs of
 * congestion allow, for any requester, and without a bound if there are none.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "packet/packet.h"
#include "roce/congestion.h"

#define BYTES	   (1024 * 1024)
#define PACKETS	   (BYTES / 1024)
#define ACCESS	   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define US	   1000ull
#define MS	   1000000ull
#define ECN	   3
#define CE	   3
#define CNP	   0x81
#define READ	   0x0c
#define WRITE_ONLY 0x0a
#define FIRST	   0x0d
#define ONLY	   0x10
#define SEND	   0x04
#define ACK	   0x11
#define PSN	   0xfffff0u

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static uint32_t cnps, responses, acks;

static bool count(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode >= FIRST && decoded->opcode <= ONLY)
		responses++;
	acks += decoded->opcode == ACK;
	cnps += decoded->opcode == CNP;
	return true;
}

static bool mark_all(struct rig_packet *packet, struct packet *decoded)
{
	count(packet, decoded);
	if (decoded->opcode == CNP)
		assert_int_equal(packet->flow.traffic_class & ECN, 0);
	assert_true(cnps < 100);
	packet->flow.traffic_class |= CE;
	rig_now_ns += 2 * CONGESTION_CNP_NS; /* each might be answered */
	return true;
}

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .access = ACCESS,
							.timeout = 18,
							.retry_cnt = 7,
							.rnr_retry = 7,
							.psn = PSN });
	cnps = responses = acks = 0;
	rig_on_packet = count;
	return 0;
}

/* Every packet is marked, CNPs as well. */
static void test_cnp_is_not_answered(void **state)
{
	rig_on_packet = mark_all;
	pair_post(IBV_WR_RDMA_WRITE, 4096, 1);
	rig_run(rig_now_ns + 10 * MS);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_in_range(cnps, 2, 6); /* for some of 4 packets, and for the acknowledgement */
}

static bool mark_writes(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode == WRITE_ONLY)
		packet->flow.traffic_class |= CE;
	return count(packet, decoded);
}

/* However many packets are marked, the next CNP is sent when the last one's interval is over. */
static void test_one_cnp_in_an_interval(void **state)
{
	rig_on_packet = mark_writes;
	for (uint64_t i = 1; i <= 5; i++) {
		pair_post(IBV_WR_RDMA_WRITE, 8, i);
		rig_run(rig_now_ns + US);
		pair_expect(i, IBV_WC_SUCCESS);
	}
	assert_int_equal(cnps, 1);
	rig_now_ns += CONGESTION_CNP_NS;
	pair_post(IBV_WR_RDMA_WRITE, 8, 6);
	rig_run(rig_now_ns + US);
	pair_expect(6, IBV_WC_SUCCESS);
	assert_int_equal(cnps, 2);
}

/* A READ of the whole region, as of an adapter, which has no window. */
static void ask(uint32_t psn)
{
	rig_inject(a,
		   &(struct packet){ .opcode = READ,
				     .psn = psn_of(psn),
				     .va = (uintptr_t)there,
				     .rkey = there_mr->ib.rkey,
				     .length = BYTES },
		   NULL);
}

static void notify(void)
{
	static const uint8_t reserved[16];

	rig_inject(
		a,
		&(struct packet){ .opcode = CNP, .becn = true, .payload_bytes = sizeof(reserved) },
		reserved);
}

static struct response_pace *pace(void)
{
	return &roce_of(b)->response_pace;
}

/* Responses that leave meanwhile. */
static uint32_t pass(uint32_t intervals)
{
	uint32_t before = responses;
	uint64_t end_ns = rig_now_ns + intervals * RESPONSE_INTERVAL_NS;

	while (rig_now_ns < end_ns)
		rig_run(rig_now_ns + US);
	return responses - before;
}

static void pass_all(uint32_t wanted)
{
	for (uint32_t i = 0; responses < wanted; i++) {
		assert_true(i < PACKETS / WINDOW_MIN);
		pass(1);
	}
}

static void test_nothing_is_held_back_without_a_sign(void **state)
{
	uint64_t start_ns = rig_now_ns;

	ask(PSN);
	while (responses < PACKETS)
		rig_run(rig_now_ns + US);
	assert_true(rig_now_ns - start_ns < RESPONSE_INTERVAL_NS);
	assert_false(pace()->bounded);
}

static void test_notification_slows_requests(void **state)
{
	static const uint8_t reserved[16];
	uint32_t before;

	pair_post(IBV_WR_RDMA_WRITE, BYTES, 1);
	rig_run(rig_now_ns + 10 * MS);
	pair_expect(1, IBV_WC_SUCCESS);
	before = roce_of(a)->window.size;
	rig_inject(
		b,
		&(struct packet){ .opcode = CNP, .becn = true, .payload_bytes = sizeof(reserved) },
		reserved);
	rig_run(rig_now_ns + US);
	assert_in_range(roce_of(a)->window.size, WINDOW_MIN, before - 1);
}

/*
 * Half as many in an interval after a CNP, and half of that after another; then two more in each.
 */
static void test_notification_slows_responses(void **state)
{
	uint32_t most, size;

	ask(PSN);
	pass_all(PACKETS);
	ask(PSN + PACKETS);
	notify();
	rig_run(rig_now_ns + US);
	most = pace()->window.max;
	assert_true(pace()->bounded);
	assert_in_range(pace()->window.size, most / 2, most / 2 + WINDOW_GROWTH);
	pass(1);
	notify();
	rig_run(rig_now_ns + US);
	size = pace()->window.size;
	assert_in_range(size, most / 4, most / 4 + 2 * WINDOW_GROWTH);
	assert_in_range(pass(2), size, 3 * (size + 3 * WINDOW_GROWTH));
	assert_in_range(pace()->window.size, size + WINDOW_GROWTH, size + 3 * WINDOW_GROWTH);
	pass_all(2 * PACKETS);
}

/* A CNP is about recent packets: without recent responses it does not slow them. */
static void test_notification_of_something_else(void **state)
{
	notify();
	rig_run(rig_now_ns + US);
	assert_false(pace()->bounded);
	ask(PSN);
	pass_all(PACKETS);
	rig_now_ns += 2 * RESPONSE_RECENT_NS;
	notify();
	rig_run(rig_now_ns + US);
	assert_false(pace()->bounded);
}

static void test_bound_ends_with_the_connection(void **state)
{
	ask(PSN);
	pass(1);
	notify();
	rig_run(rig_now_ns + US);
	assert_true(pace()->bounded);
	rig_modify(b, IBV_QPS_RESET);
	assert_false(pace()->bounded);
}

/* Never to a standstill. */
static void test_responses_go_on_whatever_comes(void **state)
{
	ask(PSN);
	pass_all(PACKETS);
	ask(PSN + PACKETS);
	while (responses < 2 * PACKETS) {
		notify();
		assert_in_range(pass(2), WINDOW_MIN, PACKETS);
	}
	/* halved, then grown in two intervals: no more than this at last */
	assert_in_range(pace()->window.size, WINDOW_MIN, 4 * WINDOW_GROWTH);
}

static void test_repeated_read_slows_responses(void **state)
{
	ask(PSN);
	pass_all(PACKETS);
	assert_false(pace()->bounded);
	ask(PSN);
	rig_run(rig_now_ns + US);
	assert_true(pace()->bounded);
	assert_in_range(pace()->window.size, WINDOW_AFTER_LOSS(pace()->window.max),
			WINDOW_AFTER_LOSS(pace()->window.max) + WINDOW_GROWTH);
	pass_all(2 * PACKETS);
}

static void test_bound_ends_where_nothing_is_congested(void **state)
{
	uint32_t psn = PSN, wanted = PACKETS;

	ask(psn);
	pass(1);
	notify();
	rig_run(rig_now_ns + US);
	assert_true(pace()->bounded);
	for (int i = 0; i < 1000 && pace()->bounded; i++) {
		ask(psn += PACKETS);
		pass_all(wanted += PACKETS);
	}
	assert_false(pace()->bounded);
}

/* Acknowledgements after a READ wait for its response; without a READ they do not wait. */
static void test_acknowledgements_do_not_wait(void **state)
{
	ask(PSN);
	pass(1);
	for (uint32_t i = 1; i <= 20; i++) {
		notify();
		ask(PSN + i * PACKETS);
		pass_all((i + 1) * PACKETS);
	}
	assert_true(pace()->bounded);
	rig_post_receive(b, 7, NULL);
	acks = 0;
	rig_inject(a,
		   &(struct packet){
			   .opcode = SEND, .psn = psn_of(PSN + 21 * PACKETS), .ack_req = true },
		   NULL);
	rig_run(rig_now_ns + 5 * US);
	assert_int_equal(acks, 1);
	pair_expect(7, IBV_WC_SUCCESS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
	const struct CMUnitTest tests[] = {
		TEST(cnp_is_not_answered),
		TEST(one_cnp_in_an_interval),
		TEST(nothing_is_held_back_without_a_sign),
		TEST(notification_slows_requests),
		TEST(notification_slows_responses),
		TEST(notification_of_something_else),
		TEST(bound_ends_with_the_connection),
		TEST(responses_go_on_whatever_comes),
		TEST(repeated_read_slows_responses),
		TEST(bound_ends_where_nothing_is_congested),
		TEST(acknowledgements_do_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
