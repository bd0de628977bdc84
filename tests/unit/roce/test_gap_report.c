/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gap reports: a responder that was asked for them tells of gaps behind the first one, and all are
 * repaired in one round trip.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "packet/kept.h"
#include "roce/repair.h"

#define BYTES	    (256 * 1024)
#define MTU	    1024
#define PACKETS	    40 /* of a message */
#define RESERVED_AT 8  /* the byte with the reserved bits of the BTH */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static struct rig_options options;

/* By PSNs from the connection's first on: a request is lost the first so many times. */
static unsigned to_lose[256], arrivals[256];
static unsigned naks, reports, reported_packets, reports_to_lose;
static uint8_t clears; /* reserved bits that the network, or the other end, does not know */
static uint64_t before[COUNTERS];

static bool on_packet(struct rig_packet *packet, struct packet *decoded)
{
	uint32_t index = psn_sub(decoded->psn, options.psn).number;

	packet->bytes[RESERVED_AT] &= (uint8_t)~clears;
	if (decoded->dest_qpn == b->ib.qp_num) {
		assert_true(index < 256);
		return arrivals[index]++ >= to_lose[index];
	}
	if (decoded->syndrome == (PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE) &&
	    !decoded->gap_report)
		naks++;
	if (!decoded->gap_report)
		return true;
	reports++;
	reported_packets += decoded->msn;
	if (!reports_to_lose)
		return true;
	reports_to_lose--;
	return false;
}

static uint64_t counted(enum counter counter)
{
	return counter_read(counter) - before[counter];
}

static void run_ms(uint64_t ms)
{
	rig_run(rig_now_ns + ms * MS);
}

static void forget(void)
{
	naks = reports = reported_packets = 0;
	for (unsigned i = 0; i < COUNTERS; i++)
		before[i] = counter_read((enum counter)i);
}

/* The first loss of the connection, by which the responder learns that its requester wants them. */
static void get_acquainted(void)
{
	to_lose[2] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, PACKETS * MTU, 0, 0);
	run_ms(0);
	pair_expect(0, IBV_WC_SUCCESS);
	assert_int_equal(reports, 0);
	forget();
}

static int setup(void **state)
{
	options = (struct rig_options){ .access = ACCESS,
					.timeout = 14,
					.retry_cnt = 7,
					.rnr_retry = 7,
					.min_rnr_timer = 12,
					.rd_atomic = 16,
					.psn = 0xfffff0 };
	pair_regions(here, there, BYTES, ACCESS);
	memset(to_lose, 0, sizeof(to_lose));
	memset(arrivals, 0, sizeof(arrivals));
	reports_to_lose = clears = 0;
	forget();
	pair_connect(IBV_QPT_RC, &options);
	rig_on_packet = on_packet;
	return 0;
}

/* Packets of the second message, counted from its first one, that came so many times. */
static unsigned came(unsigned times)
{
	unsigned count = 0;

	for (unsigned i = PACKETS; i < 2 * PACKETS; i++)
		count += arrivals[i] == times;
	return count;
}

static void lose(unsigned index, unsigned times)
{
	to_lose[PACKETS + index] = times;
}

static void write_second(void)
{
	pair_post_at(IBV_WR_RDMA_WRITE, 0, PACKETS * MTU, 1, 0);
	run_ms(0);
}

static void expect_second(void)
{
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, PACKETS * MTU);
	assert_false(kept_any(roce_of(b)->kept));
	assert_int_equal(roce_of(a)->repair.reports, 0);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* One NAK for the first gap, a report for each other one; of those only what is missing is sent. */
static void test_all_at_once(void **state)
{
	get_acquainted();
	lose(5, 1);
	lose(9, 1);
	lose(10, 1);
	lose(30, 1);
	write_second();
	expect_second();
	assert_int_equal(reports, 2);
	assert_int_equal(reported_packets, 3);
	assert_int_equal(came(2), REPAIR_RUN + 3);
	assert_int_equal(came(1), PACKETS - REPAIR_RUN - 3);
	assert_int_equal(counted(COUNTER_REPAIRS), 2);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* A row of packets: the NAK repairs two, the report tells of the others. */
static void test_burst(void **state)
{
	get_acquainted();
	for (unsigned i = 4; i < 24; i++)
		lose(i, 1);
	write_second();
	expect_second();
	assert_in_range(naks, 1,
			2); /* the second: the two had come, and what is reported had not */
	assert_int_equal(reports, 1);
	assert_int_equal(reported_packets, 20 - REPAIR_RUN);
	assert_int_equal(came(2), 20);
}

/* Its gap is the first one later: a NAK. */
static void test_lost_report(void **state)
{
	get_acquainted();
	lose(5, 1);
	lose(9, 1);
	lose(30, 1);
	reports_to_lose = 1;
	write_second();
	expect_second();
	assert_int_equal(reports, 2);
	assert_int_equal(came(2), 2 * REPAIR_RUN + 1);
}

/* What was sent again is lost once more: a NAK, which comes too soon to be believed, or a timer. */
static void test_lost_again(void **state)
{
	get_acquainted();
	lose(5, 1);
	lose(9, 2);
	lose(30, 1);
	write_second();
	run_ms(2);
	expect_second();
	assert_int_equal(counted(COUNTER_PROBES), 0);
	assert_int_equal(arrivals[PACKETS + 9], 3);
}

/* More gaps than an end remembers: those are repaired one by one. */
static void test_many(void **state)
{
	get_acquainted();
	for (unsigned i = 1; i < PACKETS - 1; i += 2)
		lose(i, 1);
	write_second();
	run_ms(2);
	expect_second();
	assert_in_range(reports, GAPS_MAX, PACKETS / 2);
}

/* What was only overtaken has come until the report would leave. */
static void test_overtaken(void **state)
{
	struct packet packet;

	get_acquainted();
	lose(5, 1);
	lose(9, 1);
	pair_post_at(IBV_WR_RDMA_WRITE, 0, PACKETS * MTU, 1, 0);
	while (rig_peek(0).psn.number != psn_add(psn_of(options.psn), PACKETS + 12).number)
		rig_step();
	packet = (struct packet){ .opcode = 7, .psn = psn_add(psn_of(options.psn), PACKETS + 9) };
	arrivals[PACKETS + 9] = 0;
	to_lose[PACKETS + 9] = 0;
	packet.payload_bytes = MTU;
	rig_inject(a, &packet, here + 9 * MTU);
	while (rig_waiting())
		rig_step(); /* without a flush: all of it is one look */
	roce_flush();
	run_ms(0);
	expect_second();
	assert_int_equal(reports, 0);
}

/* The gap of a READ's responses is none: they have PSNs, and the request has the first. */
static void test_read_behind_a_gap(void **state)
{
	get_acquainted();
	lose(1, 1);
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 4 * MTU, 1, 0);
	pair_post_at(IBV_WR_RDMA_READ, 64 * MTU, 8 * MTU, 2, 0);
	pair_post_at(IBV_WR_RDMA_WRITE, 4 * MTU, 4 * MTU, 3, 0);
	run_ms(0);
	for (uint64_t id = 1; id <= 3; id++)
		pair_expect(id, IBV_WC_SUCCESS);
	assert_int_equal(naks, 1);
	assert_int_equal(reports, 0);
}

/* A requester that does not ask gets none, and one whose responder sends none needs none. */
static void test_other_ends(void **state)
{
	clears = 0x04;
	get_acquainted();
	lose(5, 1);
	lose(9, 1);
	write_second();
	expect_second();
	assert_int_equal(reports, 0);
	assert_int_equal(naks, 2);
	assert_int_equal(counted(COUNTER_REPAIRS), 2);
}

/* Only the expected request asks for reports: a forged one has no such PSN. */
static void test_forged_request(void **state)
{
	struct packet packet = { .opcode = 4, .payload_bytes = 4, .gap_report = true };

	for (uint32_t i = 1; i < 200; i += 30) {
		packet.psn = psn_add(psn_of(options.psn), i);
		rig_inject(a, &packet, here);
		packet.psn = psn_sub(psn_of(options.psn), i);
		rig_inject(a, &packet, here);
	}
	while (rig_waiting()) {
		arrivals[psn_sub(rig_peek(0).psn, options.psn).number & 255] = 0;
		rig_on_packet = NULL;
		rig_step();
	}
	assert_false(roce_of(b)->gap_reports.wanted);
	kept_drop_all(roce_of(b)->kept);
}

/* A READ in a reported gap is not sent by that: the NAK, or a timer, has it repaired. */
static void test_read_in_a_gap(void **state)
{
	get_acquainted();
	lose(1, 1);
	lose(4, 1);
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 4 * MTU, 1, 0);
	pair_post_at(IBV_WR_RDMA_READ, 64 * MTU, 8 * MTU, 2, 0);
	pair_post_at(IBV_WR_RDMA_WRITE, 4 * MTU, 4 * MTU, 3, 0);
	run_ms(20);
	for (uint64_t id = 1; id <= 3; id++)
		pair_expect(id, IBV_WC_SUCCESS);
	assert_int_equal(reports, 1);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

static void inject_report(uint32_t index, uint32_t packets, uint8_t syndrome)
{
	const struct packet report = {
		.opcode = (uint8_t)packet_find_opcode(PACKET_RC, PACKET_ACK, true, true, 0),
		.psn = psn_add(psn_of(options.psn), index),
		.syndrome = syndrome,
		.msn = packets,
		.gap_report = true,
	};

	rig_inject(b, &report, NULL);
}

/* What a peer claims has bounds, and acknowledges nothing. */
static void test_forged(void **state)
{
	const uint8_t nak = PACKET_SYNDROME_NAK | PACKET_NAK_SEQUENCE;
	uint32_t size;

	get_acquainted();
	size = roce_of(a)->window.size;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, PACKETS * MTU, 1, 0);
	while (rig_step()) /* all arrive, and are not acknowledged yet */
		;
	inject_report(PACKETS, 3, nak);		   /* una_psn itself */
	inject_report(0, 3, nak);		   /* acknowledged */
	inject_report(PACKETS + 7, 0, nak);	   /* none */
	inject_report(PACKETS + 7, 0xffffff, nak); /* before itself */
	inject_report(PACKETS + 7, PACKETS, nak);  /* beyond what was sent */
	inject_report(2 * PACKETS + 7, 3, nak);	   /* the same */
	inject_report(PACKETS + 7, 3, nak | 0x80); /* a reserved syndrome */
	while (rig_step())
		;
	assert_int_equal(roce_of(a)->repair.reports, 0);
	assert_int_equal(roce_of(a)->window.size, size);
	assert_int_equal(roce_of(a)->una_psn.number, psn_add(psn_of(options.psn), PACKETS).number);
	for (unsigned i = 0; i < 3 * GAPS_MAX; i++)
		inject_report(PACKETS + 1 + i % 30, 1 + i % 3, nak);
	while (rig_step())
		;
	assert_in_range(roce_of(a)->repair.reports, 1, GAPS_MAX);
	roce_flush();
	run_ms(0);
	expect_second();
	assert_in_range(came(2), 1, 32);
	assert_int_equal(came(1) + came(2), PACKETS);
}

/* Of a QP that is connected anew nothing is left. */
static void test_new_connection(void **state)
{
	get_acquainted();
	assert_true(roce_of(b)->gap_reports.wanted);
	rig_modify(b, IBV_QPS_RESET);
	assert_false(roce_of(b)->gap_reports.wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(all_at_once),	 TEST(burst),	      TEST(lost_report),
		TEST(lost_again),	 TEST(many),	      TEST(overtaken),
		TEST(read_behind_a_gap), TEST(read_in_a_gap), TEST(forged_request),
		TEST(other_ends),	 TEST(forged),	      TEST(new_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
