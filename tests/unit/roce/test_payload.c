/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which payload is sent in place, and which is copied: the number of its pieces, their regions, and
 * the room of the burst.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/cause.h"
#include "roce/payload.h"

#define BYTES	  (2 * 4096)
#define SGES	  8
#define FAR_APART 256 /* from one SGE to the next */

/* The regions of the pair lie one after the other. */
static uint8_t memory[2 * BYTES] PAIR_ALIGNED;
static uint8_t *const here = memory, *const there = memory + BYTES;
static struct burst *burst;
static struct wqe *wqe;

static int setup(void **state)
{
	pair_regions(here, there, BYTES, 0); /* to be read, at this end */
	for (size_t i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 11 + i / 1000 + 5);
	pair_connect(IBV_QPT_RC, &(struct rig_options){ .timeout = 14, .retry_cnt = 7 });
	burst = burst_get(&roce_of(a)->flow);
	return 0;
}

static int teardown(void **state)
{
	burst_put(burst);
	return pair_teardown(state);
}

/* A request that is not issued; replaces the one before. */
static void post(struct ibv_sge *sge, int count, unsigned flags)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = count, .send_flags = flags
	};

	lock_acquire(&a->lock);
	sq_roll_back(&a->sq, a->sq.head);
	assert_int_equal(sq_push(&a->sq, &wr), 0);
	wqe = sq_wqe(&a->sq, a->sq.head);
	lock_release(&a->lock);
}

static void post_one(struct mr *mr, void *at, uint32_t bytes)
{
	post(&(struct ibv_sge){ (uintptr_t)at, bytes, mr->ib.lkey }, 1, 0);
}

static enum payload_result place(uint32_t offset, uint32_t bytes)
{
	enum cause cause;
	enum payload_result result = payload_place(burst, a, wqe, offset, bytes, &cause);

	assert_int_equal(cause, CAUSE_NONE);
	return result;
}

static void expect_bad(uint32_t offset, uint32_t bytes, enum cause expected)
{
	enum cause cause;

	assert_int_equal(payload_place(burst, a, wqe, offset, bytes, &cause), PAYLOAD_BAD);
	assert_int_equal(cause, expected);
}

static void add(void)
{
	struct packet header = { .opcode = (uint8_t)packet_find_opcode(PACKET_RC, OPERATION_SEND,
								       true, true, 0) };

	burst_add(burst, &header);
}

static void drop(void)
{
	burst_put(burst);
	burst = burst_get(&roce_of(a)->flow);
}

static bool is_staged(const struct iovec *piece)
{
	return (uint8_t *)piece->iov_base >= burst->staging &&
	       (uint8_t *)piece->iov_base < burst->staging + BURST_STAGING;
}

/* The next packet has these bytes of the message, in so many pieces; 0: in a copy. */
static void expect_placed(const uint8_t *message, uint32_t bytes, unsigned pieces)
{
	const struct wire_packet *packet = burst_next(burst);
	uint32_t done = 0;

	assert_int_equal(packet->payload_bytes, bytes);
	assert_int_equal(packet->pieces, pieces ? pieces : 1);
	assert_int_equal(is_staged(&packet->piece[0]), !pieces);
	assert_int_equal(burst->hazard != NULL, pieces != 0);
	for (unsigned i = 0; i < packet->pieces; i++) {
		assert_memory_equal(packet->piece[i].iov_base, message + done,
				    packet->piece[i].iov_len);
		done += packet->piece[i].iov_len;
	}
	assert_int_equal(done, bytes);
}

/* Up to WIRE_PIECES pieces of one region are sent in place, wherever the packet begins. */
static void test_pieces(void **state)
{
	static const struct {
		uint8_t lengths[SGES];
		uint8_t there; /* a bit for each SGE that is in the other region */
		uint32_t offset, bytes;
		unsigned pieces; /* 0: copied */
	} rows[] = {
		{ { 8 }, 0, 0, 8, 1 },
		{ { 8 }, 0, 4, 4, 1 },
		{ { 8, 8, 8, 8 }, 0, 0, 32, 4 },
		{ { 8, 8, 8, 8, 8 }, 0, 0, 32, 4 },
		{ { 8, 8, 8, 8, 8 }, 0, 0, 33, 0 },
		{ { 8, 8, 8, 8, 8 }, 0, 0, 40, 0 },
		{ { 1, 1, 1, 1, 1, 1, 1, 1 }, 0, 0, 8, 0 },
		/* the first packet ended in the middle of an SGE, at its end, in the next one */
		{ { 8, 8, 8, 8, 8 }, 0, 7, 25, 4 },
		{ { 8, 8, 8, 8, 8 }, 0, 7, 26, 0 },
		{ { 8, 8, 8, 8, 8 }, 0, 8, 32, 4 },
		{ { 8, 8, 8, 8, 8, 8 }, 0, 9, 31, 4 },
		{ { 8, 8, 8, 8, 8, 8 }, 0, 9, 32, 0 },
		{ { 8, 8, 8, 8, 8, 8, 8, 8 }, 0, 63, 1, 1 },
		/* empty SGEs are no pieces */
		{ { 8, 0, 8 }, 0, 0, 16, 2 },
		{ { 0, 8, 0, 8 }, 0, 0, 16, 2 },
		/* another region */
		{ { 8, 8, 8 }, 1 << 1, 0, 8, 1 },
		{ { 8, 8, 8 }, 1 << 1, 0, 9, 0 },
		{ { 8, 8, 8 }, 1 << 1, 8, 8, 1 },
		{ { 8, 8, 8 }, 1 << 1, 8, 9, 0 },
		{ { 8, 8, 8 }, 1 << 0, 8, 16, 2 },
	};

	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		uint8_t message[64 * SGES];
		struct ibv_sge sge[SGES];
		uint32_t total = 0;

		for (unsigned i = 0; i < SGES; i++) {
			bool far = rows[row].there & 1 << i;
			uint8_t *at = (far ? there : here) + (size_t)i * FAR_APART;

			sge[i] = (struct ibv_sge){ (uintptr_t)at, rows[row].lengths[i],
						   (far ? there_mr : here_mr)->ib.lkey };
			memcpy(message + total, at, rows[row].lengths[i]);
			total += rows[row].lengths[i];
		}
		post(sge, SGES, 0);
		print_message("row %zu\n", row);
		assert_int_equal(place(rows[row].offset, rows[row].bytes), PAYLOAD_PLACED);
		expect_placed(message + rows[row].offset, rows[row].bytes, rows[row].pieces);
		drop();
	}
}

static void test_no_payload_and_inline(void **state)
{
	struct ibv_sge sge = { (uintptr_t)here, 24, 0 };

	post(&sge, 0, 0);
	assert_int_equal(place(0, 0), PAYLOAD_PLACED);
	assert_int_equal(burst_next(burst)->pieces, 0);
	assert_int_equal(burst_next(burst)->payload_bytes, 0);
	post(&sge, 1, IBV_SEND_INLINE);
	assert_int_equal(place(8, 16), PAYLOAD_PLACED);
	assert_int_equal(burst_next(burst)->pieces, 1);
	assert_ptr_equal(burst_next(burst)->piece[0].iov_base, wqe->inline_data + 8);
	assert_memory_equal(burst_next(burst)->piece[0].iov_base, here + 8, 16);
	assert_int_equal(burst_next(burst)->payload_bytes, 16);
	assert_null(burst->hazard);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 24, 0), 0);
}

/* The kernel copies memory that may be missing; the null MR has none. */
static void test_copied_memory(void **state)
{
	static const uint8_t zeroes[64];
	struct mr_spec spec = { .pd = rig.pd, .length = SIZE_MAX, .null = true };
	struct mr *paged = rig_mr(&rig, here, BYTES, IBV_ACCESS_ON_DEMAND), *null;

	assert_int_equal(mr_create(&spec, &null), 0);
	post_one(paged, here + 100, 64);
	assert_int_equal(place(16, 48), PAYLOAD_PLACED);
	expect_placed(here + 116, 48, 0);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 16, 8), 0);
	drop();
	post_one(null, 0, 64);
	assert_int_equal(place(0, 64), PAYLOAD_PLACED);
	expect_placed(zeroes, 64, 0);
	drop();
	assert_int_equal(mr_destroy(paged), 0);
	assert_int_equal(mr_destroy(null), 0);
}

/* A burst may have many copies, with packets that point at memory behind them, not before. */
static void test_copies_share_a_burst(void **state)
{
	struct mr *paged = rig_mr(&rig, here, BYTES, IBV_ACCESS_ON_DEMAND);

	post_one(paged, here + 100, 64);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(place(16 * i, 16), PAYLOAD_PLACED);
		expect_placed(here + 100 + 16 * i, 16, 0);
		add();
	}
	post_one(here_mr, here, 64);
	assert_int_equal(place(0, 32), PAYLOAD_PLACED);
	expect_placed(here, 32, 1);
	add();
	post_one(paged, here + 100, 64);
	assert_int_equal(place(0, 32), PAYLOAD_NO_ROOM);
	assert_non_null(burst->hazard);
	drop();
	assert_int_equal(mr_destroy(paged), 0);
}

/* A burst publishes one key, and a copy needs it free: what does not fit waits for the next one. */
static void test_room(void **state)
{
	struct ibv_sge two[] = { { (uintptr_t)here, 8, here_mr->ib.lkey },
				 { (uintptr_t)there, 8, there_mr->ib.lkey } };

	post_one(here_mr, here, 64);
	assert_int_equal(place(0, 32), PAYLOAD_PLACED);
	post(two, 2, 0);
	/* nothing is in the burst yet, so its key may change */
	assert_int_equal(place(0, 16), PAYLOAD_PLACED);
	assert_null(burst->hazard);
	assert_int_equal(place(0, 8), PAYLOAD_PLACED);
	add();
	assert_int_equal(place(0, 16), PAYLOAD_NO_ROOM);
	assert_int_equal(place(8, 8), PAYLOAD_NO_ROOM);
	assert_int_equal(place(0, 8), PAYLOAD_PLACED);
	drop();
	assert_non_null(burst_stage(burst, BURST_STAGING - 15));
	assert_int_equal(place(0, 16), PAYLOAD_NO_ROOM);
	drop();
	assert_non_null(burst_stage(burst, BURST_STAGING - 16));
	assert_int_equal(place(0, 16), PAYLOAD_PLACED);
}

static void test_bad_keys(void **state)
{
	struct ibv_sge sge[] = { { (uintptr_t)here, 8, here_mr->ib.lkey },
				 { (uintptr_t)there + BYTES - 4, 8, there_mr->ib.lkey } };

	post(sge, 2, 0);
	expect_bad(8, 8, CAUSE_LKEY_RANGE); /* in place */
	drop();
	expect_bad(0, 16, CAUSE_LKEY_RANGE); /* copied */
	sge[1].lkey = 0xdeadbeef;
	post(sge, 2, 0);
	expect_bad(8, 8, CAUSE_LKEY_UNKNOWN);
	drop();
	expect_bad(0, 16, CAUSE_LKEY_UNKNOWN);
}

/* What follows the last packet in memory goes on, within the SGE and the region. */
static void test_contiguous(void **state)
{
	struct ibv_sge sge[] = {
		{ (uintptr_t)here, 64, here_mr->ib.lkey },
		{ (uintptr_t)here + 64, 32, here_mr->ib.lkey },	      /* adjacent */
		{ (uintptr_t)here + BYTES - 8, 8, here_mr->ib.lkey }, /* not */
		{ (uintptr_t)there, 32, there_mr->ib.lkey },	      /* adjacent, another region */
	};

	post(sge, 4, 0);
	assert_int_equal(place(0, 32), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 32, 16), 16);
	assert_int_equal(payload_contiguous(burst, a, wqe, 32, 33), 32);
	assert_int_equal(payload_contiguous(burst, a, wqe, 32, 4096), 32);
	assert_int_equal(place(32, 32), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 64, 4096), 32);
	assert_int_equal(place(64, 32), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 96, 8), 0);
	assert_int_equal(place(96, 8), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 104, 32), 0);
	drop();
	/* the end of the message */
	assert_int_equal(place(104, 32), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 136, 4096), 0);
	drop();
	/* after a packet of two pieces, of a copy */
	assert_int_equal(place(32, 48), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 80, 8), 0);
	drop();
	assert_int_equal(place(90, 20), PAYLOAD_PLACED);
	add();
	assert_int_equal(payload_contiguous(burst, a, wqe, 110, 8), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(pieces),	     TEST(no_payload_and_inline),
		TEST(copied_memory), TEST(copies_share_a_burst),
		TEST(room),	     TEST(bad_keys),
		TEST(contiguous),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
