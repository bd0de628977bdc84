/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective repeat: a responder keeps what is behind a gap, and a requester sends only that again
 * which was lost. With ends that know nothing of it, go-back-N.
 */
#include "pair.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/counter.h"
#include "packet/kept.h"
#include "roce/repair.h"

#define BYTES (256 * 1024)
#define MTU   1024
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define MS 1000000ull

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;
static struct rig_options options;

/* PSNs of requests, from the connection's first on, that are lost: the first so many times. */
static unsigned to_lose[128], arrivals[4096];
static uint64_t before[64];

static uint32_t index_of(const struct packet *packet)
{
	return psn_sub(packet->psn, options.psn).number;
}

static bool is_request(const struct packet *packet)
{
	return packet->dest_qpn == b->ib.qp_num;
}

static bool lose(struct rig_packet *packet, struct packet *decoded)
{
	uint32_t index = index_of(decoded);

	if (!is_request(decoded))
		return true;
	assert_true(index < 4096);
	return arrivals[index]++ >= (index < 128 ? to_lose[index] : 0);
}

/* A responder that drops what is behind a gap, as the IBA says. */
static bool lose_and_drop(struct rig_packet *packet, struct packet *decoded)
{
	kept_drop_all(roce_of(b)->kept);
	roce_of(b)->gap_reports.wanted = false; /* nor does it know of these */
	if (is_request(decoded) && roce_of(b)->expecting &&
	    psn_after(decoded->psn, roce_of(b)->expected_psn))
		return true; /* makes it send a NAK */
	return lose(packet, decoded);
}

static uint64_t counted(enum counter counter)
{
	return counter_read(counter) - before[counter];
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
	memset(to_lose, 0, sizeof(to_lose));
	memset(arrivals, 0, sizeof(arrivals));
	for (unsigned i = 0; i < COUNTERS; i++)
		before[i] = counter_read((enum counter)i);
	pair_connect(IBV_QPT_RC, &options);
	rig_on_packet = lose;
	return 0;
}

static void run_ms(uint64_t ms)
{
	rig_run(rig_now_ns + ms * MS);
}

/* Packets of a message that came more than once. */
static unsigned again(uint32_t packets)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < packets; i++)
		count += arrivals[i] - 1;
	return count;
}

/* One packet is lost: that one and its neighbour are sent again, and no timer is needed. */
static void test_single_loss(void **state)
{
	to_lose[5] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, 1, 0);
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40 * MTU);
	assert_int_equal(again(40), REPAIR_RUN);
	assert_int_equal(arrivals[5], 2);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
	assert_int_equal(counted(COUNTER_REPAIRS), 1);
	assert_int_equal(counted(COUNTER_KEPT), 34);
	assert_false(kept_any(roce_of(b)->kept));
	assert_true(roce_of(a)->repair.trusted);
}

/* Several packets here and there: each is repaired at once. */
static void test_several_losses(void **state)
{
	to_lose[5] = to_lose[9] = to_lose[30] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, 1, 0);
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40 * MTU);
	assert_int_equal(again(40), 3 * REPAIR_RUN);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* What is sent again is lost once more: its neighbour shows it. */
static void test_lost_again(void **state)
{
	to_lose[5] = 3;
	roce_of(a)->rtt_min_ns = 1000; /* else a NAK so soon would be about the same loss */
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, 1, 0);
	roce_of(a)->rtt_min_ns = 1000;
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40 * MTU);
	assert_int_equal(arrivals[5], 4);
	assert_int_equal(again(40), 3 * REPAIR_RUN);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* All of what is sent again is lost: a short timer, and no probe. */
static void test_lost_again_with_its_neighbour(void **state)
{
	uint64_t start = rig_now_ns;

	to_lose[5] = 2;
	to_lose[6] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, 1, 0);
	while (rig_is_quiet(&rig) && rig_now_ns < start + 10 * MS)
		rig_run(rig_now_ns + 10000);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 20 * MTU);
	assert_in_range(rig_now_ns - start, 0, 2 * MS);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* A burst of losses: with a responder that keeps packets, runs get longer. */
static void test_burst(void **state)
{
	to_lose[2] = 1;
	for (unsigned i = 8; i < 8 + 2 + 4 + 3; i++)
		to_lose[i] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, 1, 0);
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40 * MTU);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
	assert_int_equal(counted(COUNTER_REPAIRS), 4);
	assert_int_equal(again(40), 2 + 2 + 4 + 8);
}

/*
 * A responder that drops: the first loss costs a round trip more, then the requester goes back at
 * once, and tries again less and less often.
 */
static void test_responder_that_drops(void **state)
{
	rig_on_packet = lose_and_drop;
	for (unsigned i = 5; i < 105; i += 10)
		to_lose[i] = 1;
	for (uint64_t i = 0; i < 4; i++)
		pair_post_at(IBV_WR_RDMA_WRITE, (uint32_t)i * 30 * MTU, 30 * MTU, i, 0);
	run_ms(50);
	for (uint64_t i = 0; i < 4; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 120 * MTU);
	assert_false(roce_of(a)->repair.trusted);
	assert_in_range(counted(COUNTER_REPAIRS), 1, 4);
	assert_in_range(counted(COUNTER_WENT_BACK), 10, 12);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* A requester that goes back, as all others do: duplicates are acknowledged, nothing comes twice.
 */
static void test_requester_that_goes_back(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, 40 * MTU, there_mr->ib.lkey };

	to_lose[5] = to_lose[20] = 1;
	rig_post_receive(b, 7, &sge);
	rig_post_receive(b, 8, &sge);
	roce_of(a)->repair.skip = 200;
	pair_post_at(IBV_WR_SEND, 0, 20 * MTU, 1, 0);
	pair_post_at(IBV_WR_SEND, 0, 20 * MTU, 2, 0);
	roce_of(a)->repair.skip = 200; /* the first packet starts the requester */
	run_ms(0);
	pair_expect(7, IBV_WC_SUCCESS);
	pair_expect(8, IBV_WC_SUCCESS);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
	assert_memory_equal(here, there, 20 * MTU);
	assert_int_equal(counted(COUNTER_REPAIRS), 0);
	assert_in_range(counted(COUNTER_DUPLICATE_REQUEST), 1, 80);
}

static bool watch_order(struct rig_packet *packet, struct packet *decoded)
{
	/* the last byte of the WRITE is in its last packet, which comes before the missing one */
	if (arrivals[5] < 2)
		assert_int_equal(there[40 * MTU - 1], 0xee);
	return lose(packet, decoded);
}

/* Nothing behind the gap is written before it is filled (CONTRACT 27). */
static void test_nothing_is_written_early(void **state)
{
	rig_on_packet = watch_order;
	to_lose[5] = 1;
	here[40 * MTU - 1] = 0x11;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, 1, 0);
	for (int i = 0; i < 40; i++)
		rig_step();
	assert_int_equal(there[6 * MTU], 0xee);
	assert_int_equal(there[40 * MTU - 1], 0xee);
	roce_flush();
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 40 * MTU);
}

/* All kinds of requests behind the gap, executed in their order. */
static void test_order(void **state)
{
	uint64_t *word = (uint64_t *)(there + 64 * MTU);

	*word = 41;
	to_lose[0] = 1;
	rig_post_receive(b, 7, NULL);
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 3 * MTU, 1, 0);
	pair_post_at(IBV_WR_RDMA_READ, 0, 3 * MTU, 2,
		     0); /* sees the WRITE, and leaves `here` as it is */
	pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 64 * MTU, 8, 3, 0);
	pair_post_at(IBV_WR_SEND, 0, 0, 4, 0);
	pair_post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 64 * MTU, 8, 5, 0);
	run_ms(0);
	pair_expect(7, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i <= 5; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_int_equal(*word, 43);
	assert_int_equal(*(uint64_t *)(here + 64 * MTU), 42);
	for (uint32_t i = 0; i < 3 * MTU; i++)
		assert_int_equal(here[i], (uint8_t)(i * 7 + i / 1000));
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* A kept request that is refused ends the connection at its turn, and what is behind it is dropped.
 */
static void test_refused_behind_a_gap(void **state)
{
	to_lose[1] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 3 * MTU, 1, 0);
	there_mr->ib.rkey ^= 0x100;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 3 * MTU, 2, 0);
	there_mr->ib.rkey ^= 0x100;
	pair_post_at(IBV_WR_RDMA_WRITE, 8 * MTU, 3 * MTU, 3, 0);
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_REM_ACCESS_ERR);
	pair_expect(3, IBV_WC_WR_FLUSH_ERR);
	assert_memory_equal(here, there, 3 * MTU);
	assert_int_equal(there[8 * MTU], 0xee);
	assert_int_equal(qp_state(b), IBV_QPS_ERR);
	assert_null(roce_of(b)->kept);
}

/* A kept SEND that finds no receive: RNR NAK, and all of it comes again. */
static void test_no_receive_behind_a_gap(void **state)
{
	struct ibv_sge sge = { (uintptr_t)there, 5 * MTU, there_mr->ib.lkey };

	to_lose[1] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 3 * MTU, 1, 0);
	pair_post_at(IBV_WR_SEND, 0, 5 * MTU, 2, 0);
	pair_post_at(IBV_WR_RDMA_WRITE, 8 * MTU, 3 * MTU, 3, 0);
	run_ms(0);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(&rig));
	assert_false(kept_any(roce_of(b)->kept));
	rig_post_receive(b, 7, &sge);
	run_ms(3);
	pair_expect(7, IBV_WC_SUCCESS);
	pair_expect(2, IBV_WC_SUCCESS);
	pair_expect(3, IBV_WC_SUCCESS);
	assert_memory_equal(here + 8 * MTU, there + 8 * MTU, 3 * MTU);
}

/* What a peer makes a responder keep is bounded. */
static void test_bounds(void **state)
{
	static const uint8_t payload[MTU];
	struct packet packet = { .opcode = 0x07, .payload_bytes = MTU };
	struct roce_qp *tq = roce_of(b);

	for (uint32_t i = 1; i < 3 * KEPT_PSNS; i++) {
		packet.psn = psn_add(psn_of(options.psn), i);
		rig_inject(a, &packet, payload);
		rig_on_packet = NULL;
		rig_step();
	}
	assert_in_range(tq->kept->bytes, KEPT_BYTES_MAX - 2 * MTU, KEPT_BYTES_MAX);
	assert_in_range(tq->kept->count, 1, KEPT_PSNS - 1);
	rig_modify(b, IBV_QPS_RESET);
	assert_null(tq->kept);
}

/*
 * What a signal handler of the program interrupts may hold the allocator's lock, and the handler
 * may allocate: keeping packets does not.
 */
static void test_keeps_without_allocating(void **state)
{
	static const uint32_t sizes[] = { 0, 256, 1024, 4096, 1, 257, 1025 };
	const unsigned count = sizeof(sizes) / sizeof(*sizes);
	static uint8_t payload[4096];
	struct roce_qp *tq = roce_of(b);
	struct mallinfo2 at_first = mallinfo2();

	for (unsigned i = 0; i < count; i++) {
		struct packet packet = { .opcode = 0x07,
					 .psn = psn_add(tq->expected_psn, 1 + i),
					 .payload = payload,
					 .payload_bytes = sizes[i] };

		memset(payload, (int)i, sizes[i]);
		kept_add(&tq->kept, tq->expected_psn, &packet);
	}
	assert_int_equal(tq->kept->count, count);
	for (unsigned i = 0; i < count; i++) {
		struct kept_packet *kept = kept_take(tq->kept, psn_add(tq->expected_psn, 1 + i));

		assert_non_null(kept);
		assert_int_equal(kept->packet.payload_bytes, sizes[i]);
		memset(payload, (int)i, sizes[i]);
		assert_memory_equal(kept->packet.payload, payload, sizes[i]);
		kept_free(tq->kept, kept);
	}
	kept_fini(&tq->kept);
	assert_int_equal(mallinfo2().uordblks, at_first.uordblks);
}

/* Time passes, and timers fire, while packets stay on the way. */
static void hold_us(uint64_t us)
{
	for (uint64_t i = 0; i < us; i++) {
		rig_now_ns += 1000;
		roce_run(rig_now_ns);
	}
	roce_flush();
}

/* Some round trips of a short path, so that its timers are short, too. */
static void measure_path(uint64_t *wr_id)
{
	for (int i = 0; i < 8; i++) {
		pair_post_at(IBV_WR_RDMA_WRITE, 0, 1, ++*wr_id, 0);
		run_ms(0);
		pair_expect(*wr_id, IBV_WC_SUCCESS);
	}
}

/*
 * A responder that stands still for longer than the RTO, then acknowledges what is in flight bit by
 * bit: the probe was spurious, and what was sent before it does not leave again.
 */
static void test_spurious_probe(void **state)
{
	const unsigned packets = 40;

	pair_post_at(IBV_WR_RDMA_WRITE, 0, packets * MTU, 1, 0);
	assert_int_equal(rig_waiting(), packets);
	hold_us(6000); /* RETRANSMIT_PROBE_FIRST_NS and more */
	assert_int_equal(counted(COUNTER_PROBES), 1);
	run_ms(100);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, packets * MTU);
	assert_int_equal(again(packets), 1);
}

/* The same with several requests, of which the last has left in part only. */
static void test_spurious_probe_of_many(void **state)
{
	uint64_t wr_id = 0;
	unsigned sent;

	for (; wr_id < 8; wr_id++)
		pair_post_at(IBV_WR_RDMA_WRITE, (uint32_t)wr_id * 10 * MTU, 10 * MTU, wr_id + 1, 0);
	sent = rig_waiting();
	assert_in_range(sent, 31, 79);
	hold_us(6000);
	assert_int_equal(counted(COUNTER_PROBES), 1);
	run_ms(100);
	for (uint64_t i = 1; i <= wr_id; i++)
		pair_expect(i, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 80 * MTU);
	assert_int_equal(again(80), 1);
}

/* What was sent before a spurious probe was lost in part: that part leaves again. */
static void test_spurious_probe_and_a_loss(void **state)
{
	const unsigned packets = 40;

	for (unsigned i = 30; i < packets; i++)
		to_lose[i] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, packets * MTU, 1, 0);
	hold_us(6000);
	assert_int_equal(counted(COUNTER_PROBES), 1);
	run_ms(100);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, packets * MTU);
	assert_in_range(again(packets), 10, 14);
}

/* A NAK tells of a loss: the window that a probe before it took away does not come back. */
static void test_loss_after_a_probe(void **state)
{
	const unsigned packets = 40;
	uint32_t size;

	to_lose[0] = 2; /* the probe, too */
	pair_post_at(IBV_WR_RDMA_WRITE, 0, packets * MTU, 1, 0);
	size = roce_of(a)->window.size;
	roce_of(a)->repair.skip = 200; /* it goes back */
	hold_us(6000);
	assert_int_equal(counted(COUNTER_PROBES), 1);
	while (!counted(COUNTER_WENT_BACK) || roce_of(a)->probing)
		assert_true(rig_step() || (roce_flush(), rig_waiting()));
	assert_in_range(roce_of(a)->window.size, 1, size - 1);
	assert_int_equal(roce_of(a)->probe_backoff, 0);
	run_ms(100);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, packets * MTU);
	assert_int_equal(roce_of(a)->probe_backoff, 0);
}

/* A responder that is known to keep packets stands still for some hundred us: that is no probe. */
static void test_short_pause_is_no_probe(void **state)
{
	uint64_t wr_id = 0;

	measure_path(&wr_id);
	to_lose[8 + 3] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, ++wr_id, 0);
	run_ms(0);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	assert_true(roce_of(a)->repair.trusted);
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, ++wr_id, 0);
	hold_us(600);
	assert_int_equal(counted(COUNTER_PROBES), 0);
	run_ms(10);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	assert_int_equal(counted(COUNTER_WENT_BACK), 0);
}

/* Such a responder that stands still for longer: each time less likely to be probed for nothing. */
static void test_long_pauses_double_the_timeout(void **state)
{
	uint64_t wr_id = 0, probes = 0;

	measure_path(&wr_id);
	to_lose[8 + 3] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, ++wr_id, 0);
	run_ms(0);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	for (int round = 0; round < 10; round++) {
		probes = counted(COUNTER_PROBES);
		pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, ++wr_id, 0);
		hold_us(4000);
		run_ms(0);
		pair_expect(wr_id, IBV_WC_SUCCESS);
	}
	assert_int_equal(counted(COUNTER_PROBES), probes);
}

/* A NAK that comes just before the RTO ends begins it anew: what it asked for is on its way. */
static void test_nak_puts_off_the_probe(void **state)
{
	uint64_t wr_id = 0, before_ns;

	measure_path(&wr_id);
	roce_of(a)->repair.skip = 200;
	to_lose[8] = 1;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 20 * MTU, ++wr_id, 0);
	before_ns = roce_of(a)->probe_ns;
	hold_us((before_ns - rig_now_ns) / 1000 - 20);
	while (!counted(COUNTER_WENT_BACK))
		assert_true(rig_step() || (roce_flush(), rig_waiting()));
	assert_true(roce_of(a)->probe_ns > before_ns + 500000);
	run_ms(10);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	assert_int_equal(counted(COUNTER_PROBES), 0);
}

/* What waits in a slow responder's buffer becomes less before it waits for as long as a time-out.
 */
static void test_slow_answers_halve_the_window(void **state)
{
	const uint64_t timeout_us = 3 * 67109;
	uint64_t wr_id = 0;
	uint32_t size;

	measure_path(&wr_id);
	size = roce_of(a)->window.size;
	for (int round = 0; round < 4; round++) {
		bool slow = round % 2;

		pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, ++wr_id, 0);
		hold_us(slow ? timeout_us / 4 + 1000 : timeout_us / 4 - 1000);
		run_ms(0);
		pair_expect(wr_id, IBV_WC_SUCCESS);
		if (slow)
			assert_in_range(roce_of(a)->window.size, 2, size * 3 / 4);
		else
			assert_in_range(roce_of(a)->window.size, size, roce_of(a)->window.max);
		size = roce_of(a)->window.size;
	}

	/* over a long path that is the round trip */
	roce_of(a)->rtt_min_ns = roce_of(a)->rtt_recent_ns = timeout_us * 1000 / 4;
	pair_post_at(IBV_WR_RDMA_WRITE, 0, 40 * MTU, ++wr_id, 0);
	hold_us(timeout_us / 4 + 1000);
	run_ms(0);
	pair_expect(wr_id, IBV_WC_SUCCESS);
	assert_in_range(roce_of(a)->window.size, size, roce_of(a)->window.max);
	assert_int_equal(counted(COUNTER_LOCAL_ACK_TIMEOUT_ERR), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(single_loss),
		TEST(several_losses),
		TEST(lost_again),
		TEST(lost_again_with_its_neighbour),
		TEST(burst),
		TEST(responder_that_drops),
		TEST(requester_that_goes_back),
		TEST(nothing_is_written_early),
		TEST(order),
		TEST(refused_behind_a_gap),
		TEST(no_receive_behind_a_gap),
		TEST(bounds),
		TEST(keeps_without_allocating),
		TEST(spurious_probe),
		TEST(spurious_probe_of_many),
		TEST(spurious_probe_and_a_loss),
		TEST(loss_after_a_probe),
		TEST(short_pause_is_no_probe),
		TEST(long_pauses_double_the_timeout),
		TEST(nak_puts_off_the_probe),
		TEST(slow_answers_halve_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
