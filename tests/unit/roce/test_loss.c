/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lost, repeated, late and refused packets: every message arrives once and in order; how requester
 * and responder detect losses.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"

#define BYTES (256 * 1024)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
/* which packets are lost: the n-th with this opcode, counted from 0 */
static int lose_opcode, lose_from, lose_count, seen;

static bool lose(struct rig_packet *packet, struct packet *decoded)
{
	if (decoded->opcode != lose_opcode)
		return true;
	seen++;
	return seen - 1 < lose_from || seen - 1 >= lose_from + lose_count;
}

static void lose_packets(int opcode, int from, int count)
{
	lose_opcode = opcode;
	lose_from = from;
	lose_count = count;
	seen = 0;
	rig_on_packet = lose;
}

static struct rig_options options;

static void connect(void)
{
	pair_connect(IBV_QPT_RC, &options);
}

static int setup(void **state)
{
	options = (struct rig_options){ .access = ACCESS,
					.timeout = 14,
					.retry_cnt = 7,
					.rnr_retry = 7,
					.min_rnr_timer = 12,
					.psn = 0xfffff0 };
	pair_regions(here, there, BYTES, ACCESS);
	return 0;
}

static void run_ms(uint64_t ms)
{
	rig_run(rig_now_ns + ms * MS);
}

/* From now on events are counted in the rig's arena, for device DEVICE. */
#define DEVICE 2
static void count_events(void)
{
	rig.context->device_index = DEVICE;
	counter_init(rig.arena);
}

static uint64_t counted(enum counter counter)
{
	return arena_counters(rig.arena)[arena_device_counters(DEVICE) + counter];
}

/* The responder sends a NAK at once; no timer is needed. */
static void test_lost_middle(void **state)
{
	connect();
	lose_packets(0x07, 5, 1);
	pair_post(IBV_WR_RDMA_WRITE, 40000, 1);
	run_ms(0);
	assert_true(counter_read(COUNTER_PACKET_SEQ_ERR) > 0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40000);
}

/* It is lost again when it is sent again: another NAK, because the PSNs start over. */
static void test_lost_twice(void **state)
{
	connect();
	lose_packets(0x07, 5, 0);
	lose_from = 5;
	lose_count = 1;
	pair_post(IBV_WR_RDMA_WRITE, 30000, 1);
	/* 28 MIDDLE go out; the sixth is lost, and the first of the second attempt, too */
	while (rig_step())
		;
	lose_from = seen;
	roce_flush(); /* b's NAK */
	while (rig_step())
		;
	roce_flush(); /* a goes back */
	run_ms(20);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 30000);
}

/* No NAK reports the loss of the last packet: the probe detects it, long before the time-out. */
static void test_lost_tail(void **state)
{
	connect();
	lose_packets(0x08, 0, 1);
	pair_post(IBV_WR_RDMA_WRITE, 2000, 1);
	run_ms(20);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 2000);
}

static void test_lost_acknowledgement(void **state)
{
	uint32_t before;

	connect();
	lose_packets(0x11, 0, 1);
	rig_post_receive(b, 7, NULL);
	pair_post(IBV_WR_SEND, 0, 1);
	before = rig_sent;
	run_ms(20);
	pair_expect(7, IBV_WC_SUCCESS);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig)); /* it was received once */
	assert_true(rig_sent - before <= 4);
}

/* Each packet of a READ's response, and the request. */
static void test_lost_response(void **state)
{
	for (uint32_t i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 13 + i / 700);
	connect();
	for (int n = 0; n < 12; n++) {
		int opcode = n == 0 ? 0x0c : n == 1 ? 0x0d : n == 11 ? 0x0f : 0x0e;

		memset(here, 0, BYTES);
		lose_packets(opcode, n < 2 || n == 11 ? 0 : n - 2, 1);
		pair_post(IBV_WR_RDMA_READ, 11 * 1024, (uint64_t)n);
		pair_post(IBV_WR_RDMA_READ, 100, 100 + (uint64_t)n);
		run_ms(20);
		pair_expect((uint64_t)n, IBV_WC_SUCCESS);
		pair_expect(100 + (uint64_t)n, IBV_WC_SUCCESS);
		assert_memory_equal(here, there, 11 * 1024);
	}
}

/* The acknowledgement of a SEND after a READ shows that the READ's response was lost. */
static void test_implied_nak(void **state)
{
	connect();
	rig_post_receive(b, 7, NULL);
	lose_packets(0x10, 0, 1);
	pair_post(IBV_WR_RDMA_READ, 100, 1);
	pair_post(IBV_WR_SEND, 0, 2);
	run_ms(0);
	pair_expect(7, IBV_WC_SUCCESS);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
}

/* An atomic is executed once, however often it is repeated. */
static void test_lost_atomic_response(void **state)
{
	connect();
	memset(there, 0, 64);
	lose_packets(0x12, 0, 3);
	for (uint64_t i = 0; i < 6; i++)
		pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, i, 0);
	run_ms(300);
	for (uint64_t i = 0; i < 6; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(there + 8), 6);
	assert_int_equal(*(uint64_t *)(here + 8), 5);
}

static void test_no_receive(void **state)
{
	connect();
	pair_post(IBV_WR_SEND, 5000, 1);
	pair_post(IBV_WR_SEND, 100, 2);
	run_ms(3); /* 0.64 ms for each try */
	assert_true(rig_is_quiet(&rig));
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = { (uintptr_t)there, 5000, there_mr->ib.lkey };

		rig_post_receive(b, 10 + i, &sge);
	}
	run_ms(3);
	pair_expect(10, IBV_WC_SUCCESS);
	pair_expect(11, IBV_WC_SUCCESS);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
}

static void test_no_receive_for_ever(void **state)
{
	uint64_t start;

	options.rnr_retry = 2;
	connect();
	count_events();
	pair_post(IBV_WR_SEND, 10, 1);
	pair_post(IBV_WR_RDMA_WRITE, 10, 2);
	start = rig_now_ns;
	while (rig_is_quiet(&rig)) {
		assert_true(rig_now_ns < start + 10 * MS);
		rig_run(rig_now_ns + 10000);
	}
	assert_in_range(rig_now_ns - start, 2 * 640000, 3 * 640000);
	pair_expect(1, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(qp_state(b), IBV_QPS_RTS);
	assert_int_equal(counted(COUNTER_SEND_RNR_ERR), 3);
	assert_int_equal(counted(COUNTER_RCVD_RNR_ERR), 3);
	assert_int_equal(counted(COUNTER_RNR_NAK_RETRY_ERR), 2);
	assert_int_equal(counted(COUNTER_RETRY_RNR_EXCEEDED_ERR), 1);
	assert_int_equal(counted(COUNTER_RETRY_EXCEEDED_ERR), 0);
	counter_init(NULL);
}

/* timeout 12 is 16.8 ms, three times. */
static void test_silence(void **state)
{
	uint64_t start;

	options.timeout = 12;
	options.retry_cnt = 2;
	connect();
	count_events();
	lose_packets(0x0a, 0, 1000);
	pair_post(IBV_WR_RDMA_WRITE, 10, 1);
	start = rig_now_ns;
	while (rig_is_quiet(&rig)) {
		assert_true(rig_now_ns < start + 300 * MS);
		rig_run(rig_now_ns + 100000);
	}
	assert_in_range(rig_now_ns - start, 3 * 16 * MS, 3 * 4 * 17 * MS);
	pair_expect(1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(counted(COUNTER_LOCAL_ACK_TIMEOUT_ERR), 2);
	assert_int_equal(counted(COUNTER_RETRY_EXCEEDED_ERR), 1);
	assert_int_equal(counter_read(COUNTER_SEND_RNR_ERR), 0);
	counter_init(NULL);
}

/* timeout 0: it never gives up. */
static void test_silence_for_ever(void **state)
{
	options.timeout = 0;
	options.retry_cnt = 0;
	connect();
	lose_packets(0x0a, 0, 12);
	pair_post(IBV_WR_RDMA_WRITE, 10, 1);
	run_ms(20000);
	pair_expect(1, IBV_WC_SUCCESS);
}

/* A socket that takes nothing for a while: nothing is counted, nothing is lost. */
static void test_full_socket(void **state)
{
	options.retry_cnt = 0;
	connect();
	rig_full_after = 3;
	pair_post(IBV_WR_RDMA_WRITE, 20000, 1);
	pair_post_at(IBV_WR_RDMA_READ, 100000, 3000, 2, 0);
	for (unsigned i = 0; i < 50; i++) {
		run_ms(1);
		rig_full_after = i % 2 ? 1 : 0;
	}
	rig_full_after = UINT32_MAX;
	run_ms(20);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 20000);
}

static bool lose_atomic_responses(struct rig_packet *packet, struct packet *decoded)
{
	return decoded->opcode != 0x12;
}

/*
 * A request is refused, and the response to an atomic before it is lost for good, as the responder
 * is in ERR. The requester repeats the atomic, and gets the same NAK; it gives up although no timer
 * runs.
 */
static void test_refused_behind_a_lost_response(void **state)
{
	unsigned asked = 0;

	options.timeout = 0;
	options.retry_cnt = 3;
	connect();
	rig_on_packet = lose_atomic_responses;
	pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 1, 0);
	there_mr->ib.rkey ^= 0x100;
	pair_post(IBV_WR_RDMA_WRITE, 100, 2);
	there_mr->ib.rkey ^= 0x100;
	while (rig_is_quiet(&rig)) {
		struct packet next = rig_peek(0);

		if (next.opcode == 0x14)
			assert_in_range(++asked, 1, 1 + 3 + 1);
		rig_now_ns += MS;
		rig_step();
		roce_flush();
	}
	pair_expect(1, IBV_WC_RETRY_EXC_ERR);
	pair_expect(2, IBV_WC_WR_FLUSH_ERR);
}

/* The NAK of a refused request is lost: it is repeated, so the requester learns the reason. */
static void test_lost_refusal(void **state)
{
	connect();
	lose_packets(0x11, 0, 1);
	pair_post_at(IBV_WR_RDMA_WRITE, BYTES, 0, 1, 0);
	{
		struct ibv_sge sge = { (uintptr_t)here, 8, here_mr->ib.lkey };
		struct ibv_send_wr wr = {
			.wr_id = 2,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)there + BYTES - 4,
				     .rkey = there_mr->ib.rkey },
		};

		rig_post_send(a, &wr);
	}
	run_ms(50);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(qp_state(b), IBV_QPS_ERR);
	assert_int_equal(qp_state(a), IBV_QPS_ERR);
	assert_int_equal(there[BYTES - 4], 0xee);
}

static unsigned random_state;

static bool lose_some(struct rig_packet *packet, struct packet *decoded)
{
	return rand_r(&random_state) % 100 >= 10;
}

/* A tenth of everything is lost. */
static void test_random_loss(void **state)
{
	for (unsigned seed = 0; seed < 40; seed++) {
		uint64_t *count = (uint64_t *)(there + 200000);

		random_state = seed;
		if (!seed)
			connect();
		rig_on_packet = NULL;
		memset(there, (int)seed, 65536);
		for (uint32_t i = 65536; i < 131072; i++)
			there[i] = (uint8_t)(i * 3 + i / 100 + seed);
		*count = 0;
		rig_on_packet = lose_some;
		for (uint64_t i = 0; i < 8; i++) {
			rig_post_receive(b, 1000 + i, NULL);
			pair_post_at(IBV_WR_RDMA_WRITE, (uint32_t)i * 8192, 8192, 5 * i, 0);
			pair_post_at(IBV_WR_SEND, 0, 0, 5 * i + 1, 0);
			pair_post_at(IBV_WR_RDMA_READ, 65536 + (uint32_t)i * 8192, 8192, 5 * i + 2,
				     0);
			pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 200000, 8, 5 * i + 3,
				     i % 2 ? IBV_SEND_FENCE : 0);
			pair_post_at(IBV_WR_RDMA_WRITE, (uint32_t)i * 8192, 10, 5 * i + 4, 0);
		}
		run_ms(20000);
		for (uint64_t next = 0, received = 0; next < 40 || received < 8;) {
			struct ibv_wc wc = rig_completion(&rig);

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.wr_id >= 1000)
				assert_int_equal(wc.wr_id, 1000 + received++);
			else
				assert_int_equal(wc.wr_id, next++);
		}
		assert_true(rig_is_quiet(&rig));
		assert_memory_equal(here, there, 131072);
		assert_int_equal(*count, 8);
	}
}

/*
 * A responder that keeps the resources of the last max_dest_rd_atomic READs for repetition, and
 * takes the range of a repeated request as the new resource.
 */
static struct kept_read {
	uint32_t first, end; /* PSNs, from the connection's first on */
	uint64_t va;
	uint32_t length;
} kept_reads[4];
static uint32_t kept_count, kept_expected;

static void keep_read(const struct packet *request)
{
	uint32_t first = psn_sub(request->psn, options.psn).number;
	uint32_t end = first + packets_of(request->length, 1024);

	if (first == kept_expected) {
		kept_reads[kept_count++ % 4] =
			(struct kept_read){ first, end, request->va, request->length };
		kept_expected = end;
	}
	if (first >= kept_expected)
		return;
	for (unsigned i = 0; i < 4; i++) {
		struct kept_read *kept = &kept_reads[i];

		if (first < kept->first || first >= kept->end)
			continue;
		assert_int_equal(end, kept->end);
		assert_int_equal(request->va - kept->va + request->length, kept->length);
		assert_in_range(request->va, kept->va, kept->va + kept->length);
		*kept = (struct kept_read){ kept->first, end, request->va, request->length };
		return;
	}
	fail_msg("a READ is repeated that is not kept any more");
}

static bool check_piece(struct rig_packet *packet, struct packet *decoded)
{
	bool arrives = lose_some(packet, decoded);

	packet->bytes[8] &= 0x80; /* it knows nothing of packet.original */
	if (arrives && decoded->opcode == 0x0c)
		keep_read(decoded);
	return arrives;
}

/*
 * A peer becomes twenty times as slow as in the first round trip: after a few spurious probes no
 * packet is sent twice. When it is fast again, a lost packet is soon detected.
 */
static void test_slow_peer(void **state)
{
	uint32_t before;
	uint64_t start;

	options.timeout = 20;
	connect();
	pair_post(IBV_WR_RDMA_WRITE, 100, 1);
	run_ms(1);
	pair_expect(1, IBV_WC_SUCCESS);
	for (uint64_t round = 2; round < 20; round++) {
		before = rig_sent;
		pair_post(IBV_WR_RDMA_WRITE, 30 * 1024, round);
		for (int ms = 0; ms < 20; ms++) {
			rig_now_ns += MS;
			roce_run(rig_now_ns);
		}
		run_ms(0);
		pair_expect(round, IBV_WC_SUCCESS);
	}
	assert_in_range(rig_sent - before, 30, 34); /* with acknowledgements */

	for (uint64_t round = 20; round < 40; round++) {
		pair_post(IBV_WR_RDMA_WRITE, 100, round);
		run_ms(0);
		pair_expect(round, IBV_WC_SUCCESS);
	}
	lose_packets(0x0a, 0, 1);
	pair_post(IBV_WR_RDMA_WRITE, 100, 40);
	start = rig_now_ns;
	while (rig_is_quiet(&rig))
		run_ms(1);
	pair_expect(40, IBV_WC_SUCCESS);
	assert_in_range(rig_now_ns - start, 0, 20 * MS);
}

/*
 * A responder need not repeat what it did not execute yet (IBA 9.7.5.1.4): a repeated request may
 * begin later, but ends where it did, whatever has become of the window. And once a later part was
 * repeated, Linux's soft-RoCE does not repeat an earlier one.
 */
static void test_read_pieces(void **state)
{
	for (uint32_t i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 13 + i / 700);
	connect();
	random_state = 5;
	rig_on_packet = check_piece;
	pair_post(IBV_WR_RDMA_READ, BYTES, 1);
	pair_post(IBV_WR_RDMA_READ, BYTES - 1, 2);
	run_ms(20000);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, BYTES);
	assert_in_range(rig_sent, 512, 5 * 512);
}

/* RESET at any moment, with packets and timers left over. */
static void test_reset(void **state)
{
	connect();
	pair_post(IBV_WR_RDMA_WRITE, 100000, 1);
	pair_post_at(IBV_WR_RDMA_READ, 100000, 3000, 2, 0);
	rig_modify(a, IBV_QPS_RESET);
	assert_true(rig_is_quiet(&rig));
	run_ms(100);
	rig_modify(b, IBV_QPS_RESET);
	memset(there, 0, BYTES);
	rig_connect(a, b, &options);
	pair_post(IBV_WR_RDMA_WRITE, 100000, 3);
	run_ms(100);
	pair_expect(3, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 100000);
}

static void test_drain(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };

	connect();
	lose_packets(0x07, 3, 1);
	pair_post(IBV_WR_RDMA_WRITE, 250000, 1);
	assert_int_equal(qp_modify(a, &attr, IBV_QP_STATE), 0);
	pair_post(IBV_WR_RDMA_WRITE, 10, 2);
	run_ms(100);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_true(a->drained);
	assert_true(rig_is_quiet(&rig));
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(a, &attr, IBV_QP_STATE), 0);
	run_ms(100);
	pair_expect(2, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(lost_middle),
		TEST(refused_behind_a_lost_response),
		TEST(lost_twice),
		TEST(lost_tail),
		TEST(lost_acknowledgement),
		TEST(lost_response),
		TEST(implied_nak),
		TEST(lost_atomic_response),
		TEST(no_receive),
		TEST(no_receive_for_ever),
		TEST(silence),
		TEST(silence_for_ever),
		TEST(full_socket),
		TEST(lost_refusal),
		TEST(random_loss),
		TEST(slow_peer),
		TEST(read_pieces),
		TEST(reset),
		TEST(drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
