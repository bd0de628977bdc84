/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages that the responder fetches from the requester's memory: which pieces the requester
 * offers, and what it does when they are refused.
 */
#include "rendezvous_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
	return rendezvous_setup(IBV_QPT_RC, false);
}

static int setup_uc(void **state)
{
	return rendezvous_setup(IBV_QPT_UC, false);
}

static int teardown(void **state)
{
	rendezvous_teardown();
	return 0;
}

static enum operation sent = OPERATION_SEND;

/* The next record is a piece of a message of `bytes` at `at` of the region, by key or in the ring.
 */
static void expect_piece(bool by_key, size_t at, uint32_t bytes, uint32_t flags)
{
	struct record_source source;
	struct record_header header = { 0 };
	const struct record *record = ring_peek(&far.rx, &header);

	assert_non_null(record);
	assert_int_equal(record_kind(&header), sent);
	assert_int_equal(record_is_by_key(&header), by_key);
	assert_int_equal(record_flags(&header) & (RECORD_FIRST | RECORD_LAST), flags);
	if (by_key) {
		assert_int_equal(header.bytes, rendezvous_room(bytes));
		memcpy(&source, record->payload, sizeof(source));
		assert_int_equal(source.address, (uintptr_t)memory + at);
		assert_int_equal(source.key, mr->ib.lkey);
		assert_int_equal(source.bytes, bytes);
		assert_int_equal(source.generation, qp->entry->generation);
	} else {
		assert_int_equal(header.bytes, bytes);
		assert_memory_equal(record->payload, memory + at, bytes);
	}
	ring_advance(&far.rx, &header);
}

static void expect_no_piece(void)
{
	struct record_header header = { 0 };

	assert_null(ring_peek(&far.rx, &header));
}

static void test_offers_pieces(void **state)
{
	post_bytes(8, RENDEZVOUS_MIN);
	expect_piece(true, 8, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
	post_bytes(24, 2 * RENDEZVOUS_PIECE + 5);
	expect_piece(true, 24, RENDEZVOUS_PIECE, RECORD_FIRST);
	expect_piece(true, 24 + RENDEZVOUS_PIECE, RENDEZVOUS_PIECE, 0);
	/* a short piece is not worth it */
	expect_piece(false, 24 + 2 * RENDEZVOUS_PIECE, 5, RECORD_LAST);
	expect_no_piece();
	assert_int_equal(shm_of(qp)->unacked, 2);
}

/* Pages at the region's edges are not in the heap. */
static void test_edges_go_through_the_ring(void **state)
{
	key->heap_edges = 100 | 300 << 16;
	post_bytes(60, BYTES - 60);
	expect_piece(false, 60, 40, RECORD_FIRST);
	for (uint32_t at = 100; at < BYTES - 300; at += RENDEZVOUS_PIECE)
		expect_piece(true, at,
			     at + RENDEZVOUS_PIECE <= BYTES - 300 ? RENDEZVOUS_PIECE
								  : BYTES - 300 - at,
			     0);
	expect_piece(false, BYTES - 300, 300, RECORD_LAST);
	expect_no_piece();
}

static void test_offers_each_sge(void **state)
{
	struct mr *private = rig_mr(&rig, memory, BYTES, 0);
	struct ibv_sge sge[] = {
		{ (uintptr_t)memory, 20000, mr->ib.lkey },
		{ (uintptr_t)memory + 20000, 0, mr->ib.lkey },
		{ (uintptr_t)memory + 20000, 20000, private->ib.lkey },
		{ (uintptr_t)memory + 40000, 20000, mr->ib.lkey },
	};

	post(IBV_WR_SEND, sge, 4);
	expect_piece(true, 0, 20000, RECORD_FIRST);
	expect_piece(false, 20000, RECORD_PAYLOAD_MAX, 0);
	expect_piece(false, 20000 + RECORD_PAYLOAD_MAX, 20000 - RECORD_PAYLOAD_MAX, 0);
	expect_piece(true, 40000, 20000, RECORD_LAST);
	expect_no_piece();
	assert_int_equal(mr_destroy(private), 0);
}

/* All of it goes through the ring. */
static void expect_ring(uint32_t bytes)
{
	post_bytes(0, bytes);
	for (uint32_t at = 0; at < bytes; at += RECORD_PAYLOAD_MAX)
		expect_piece(false, at, RECORD_PAYLOAD_MAX,
			     (at ? 0 : RECORD_FIRST) |
				     (at + RECORD_PAYLOAD_MAX == bytes ? RECORD_LAST : 0));
	far_acknowledge(&far);
	rig_progress(far.link);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);
}

static void test_what_is_not_offered(void **state)
{
	expect_ring(RENDEZVOUS_MIN - RECORD_PAYLOAD_MAX);
	key->flags = KEY_MOVING;
	expect_ring(RENDEZVOUS_MIN);
	key->flags = 0;
	far.link->xcopy = XCOPY_NONE; /* VERBATIM_REACH=message */
	expect_ring(RENDEZVOUS_MIN);
	far.link->xcopy = XCOPY_VM;
	key->heap = 0;
	expect_ring(RENDEZVOUS_MIN);
}

/* The record takes room in the ring as long as a part of the payload. */
static void test_takes_room(void **state)
{
	uint64_t before = link_sent(far.link), moved = shm_moved;

	post_bytes(0, RENDEZVOUS_PIECE);
	assert_true(link_sent(far.link) - before >= RENDEZVOUS_PIECE / 16);
	assert_in_range(shm_moved - moved, 0, 2 * RECORD_UNIT); /* it has copied nothing */
}

/* Of WRITEs only those with immediate data. */
static void test_writes(void **state)
{
	struct ibv_sge sge = { (uintptr_t)memory, RENDEZVOUS_MIN, mr->ib.lkey };

	far.link->xcopy = XCOPY_NONE; /* else a WRITE is no message */
	far.link->xcopy_error = EPERM;
	far.link->xcopy_told = true;
	sent = OPERATION_WRITE;
	post(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 1);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
	post(IBV_WR_RDMA_WRITE, &sge, 1);
	expect_piece(false, 0, RECORD_PAYLOAD_MAX, RECORD_FIRST);
	expect_piece(false, RECORD_PAYLOAD_MAX, RECORD_PAYLOAD_MAX, RECORD_LAST);
	sent = OPERATION_SEND;
	post(IBV_WR_SEND_WITH_INV, &sge, 1);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
}

/* What was sent before a reset is not of the next connection. */
static void test_reset_changes_generation(void **state)
{
	uint32_t before = qp->entry->generation;

	post_bytes(0, RENDEZVOUS_MIN);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
	rig_reset(qp);
	assert_int_not_equal(qp->entry->generation, before);
	connect_qp();
	post_bytes(0, RENDEZVOUS_MIN);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
}

/* UC: the program has its memory back before the responder has the message. */
static void test_not_of_uc(void **state)
{
	expect_ring(RENDEZVOUS_MIN);
}

/* The responder refuses the next piece, and the requester sends its message through the ring. */
static void refuse(uint32_t msn)
{
	struct record_header nak = { .dst_qpn = qp->ib.qp_num,
				     .src_qpn = FAR_QPN,
				     .msn = (PSN + msn) | (uint32_t)shm_of(qp)->attempt << 24,
				     .total = NAK_UNCOUNTED | NAK_BY_RING | 1,
				     .imm = NAK_RNR };

	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
	far_send(&far, RECORD_NAK, 0, nak, NULL);
	far_acknowledge(&far);
	rig_progress(far.link);
	usleep(1000); /* past the timer of 10 us */
	lock_acquire(&qp->lock);
	shm_of(qp)->state = REQUESTER_READY;
	qp->path->issue(qp);
	lock_release(&qp->lock);
	expect_piece(false, 0, RECORD_PAYLOAD_MAX, RECORD_FIRST);
	expect_piece(false, RECORD_PAYLOAD_MAX, RECORD_PAYLOAD_MAX, RECORD_LAST);
	far_acknowledge(&far);
	rig_progress(far.link);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);
}

/*
 * A refused message is sent again through the ring, and so are others for a while: longer after
 * each refusal, until one was fetched.
 */
static void test_refusal(void **state)
{
	uint32_t msn = 0;

	for (uint32_t pause = RENDEZVOUS_PAUSE; pause <= 2 * RENDEZVOUS_PAUSE_MAX; pause *= 2) {
		uint32_t messages = pause < RENDEZVOUS_PAUSE_MAX ? pause : RENDEZVOUS_PAUSE_MAX;

		post_bytes(0, RENDEZVOUS_MIN);
		refuse(msn);
		for (uint32_t i = 1; i < messages; i++)
			expect_ring(RENDEZVOUS_MIN);
		msn += messages;
	}
	post_bytes(0, RENDEZVOUS_MIN);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
	far_acknowledge(&far);
	rig_progress(far.link);
	assert_int_equal(cq_pop(rig.cq, 1, &(struct ibv_wc){ 0 }), 1);
	post_bytes(0, RENDEZVOUS_MIN);
	refuse(msn + 1);
	for (uint32_t i = 1; i < RENDEZVOUS_PAUSE; i++)
		expect_ring(RENDEZVOUS_MIN);
	post_bytes(0, RENDEZVOUS_MIN);
	expect_piece(true, 0, RENDEZVOUS_MIN, RECORD_FIRST | RECORD_LAST);
}

/* Of the pause, too, the last message goes through the ring. */
static void test_last_of_pause(void **state)
{
	expect_ring(RECORD_PAYLOAD_MAX); /* which starts the requester */
	shm_of(qp)->by_ring = 1;
	expect_ring(RENDEZVOUS_MIN);
	assert_int_equal(shm_of(qp)->by_ring, 0);
}

int main(void)
{
#define TEST(name)    cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
#define UC_TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup_uc, teardown)
	const struct CMUnitTest tests[] = {
		TEST(offers_pieces),
		TEST(edges_go_through_the_ring),
		TEST(offers_each_sge),
		TEST(what_is_not_offered),
		TEST(takes_room),
		TEST(writes),
		TEST(reset_changes_generation),
		UC_TEST(not_of_uc),
		TEST(refusal),
		TEST(last_of_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
