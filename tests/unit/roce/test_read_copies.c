/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selective repeat of responses, at the responder: what is sent from copies, packet by packet.
 */
#include "read_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "execute/copies.h"
#include "object/mw.h"

static void test_copies(void **state)
{
	struct mr *mr = rig_mr(&rig, there, READ_BYTES, READ_ACCESS);
	uint32_t key = mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 4 * MTU, false, key);
	expect_responses(0, 4, false, 2);
	inject_read(4, 4 * MTU, 4 * MTU, false, key);
	expect_responses(4, 4, false, 3);
	inject_read(1, MTU, 2 * MTU, true, key);
	expect_responses(1, 2, true, 2);
	/* not a part of one READ: its end, address, key; and others that are */
	inject_read(7, 7 * MTU, MTU, true, key);
	expect_responses(7, 1, true, 3);
	inject_read(6, 6 * MTU, 3 * MTU, true, key); /* the responder has not executed so much */
	expect_responses(6, 0, true, 0);
	inject_read(5, 6 * MTU, MTU, true, key);
	expect_responses(5, 1, false, 7);
	/* executed anew from there on: no copy, and none of that */
	inject_read(6, 6 * MTU, MTU, true, key);
	expect_responses(6, 1, false, 8);
	inject_read(4, 4 * MTU, MTU, true, key);
	expect_responses(4, 1, true, 3);
	inject_read(3, 3 * MTU, 2 * MTU, true, key); /* of two READs */
	expect_responses(3, 2, false, 10);
	inject_read(2, 2 * MTU, 2 * MTU, false, key);
	expect_responses(2, 2, false, 11);
	inject_read(2, 2 * MTU, MTU, true, key);
	expect_responses(2, 1, false, 12);
	inject_read(1, MTU, MTU, true, key);
	expect_responses(1, 1, true, 2);
	/* the key is checked */
	inject_read(1, MTU, MTU, true, there_mr->ib.rkey);
	expect_responses(1, 1, false, 14);
	inject_read(0, 0, MTU, true, key);
	assert_int_equal(mr_destroy(mr), 0); /* before the answer leaves */
	expect_responses(0, 0, true, 0);
	inject_read(0, 0, MTU, true, key);
	expect_responses(0, 0, true, 0);
}

/* Copies go in front of what is owed, which goes on. What is owed comes as the original anyway. */
static void test_copies_in_front(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 4 * MTU, false, key);
	expect_responses(0, 4, false, 2);
	inject_read(4, 4 * MTU, 4 * MTU, false, key);
	inject_read(5, 5 * MTU, 2 * MTU, true, key);
	inject_read(3, 3 * MTU, MTU, true, key);
	inject_read(1, MTU, MTU, true, key);
	roce_flush();
	assert_int_equal(rig_waiting(), 6);
	assert_int_equal(rig_peek(0).psn.number, psn(3).number);
	assert_int_equal(rig_peek(1).psn.number, psn(1).number);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(rig_peek(2 + i).psn.number, psn(4 + i).number);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(rig_peek(i).original, i < 2);
}

/* A requester that goes back has no use for the copies it asked for. */
static void test_going_back_after_asking(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 8 * MTU, false, key);
	expect_responses(0, 8, false, 2);
	inject_read(5, 5 * MTU, MTU, true, key);
	inject_read(2, 2 * MTU, MTU, true, key);
	inject_read(2, 2 * MTU, 6 * MTU, false, key);
	expect_responses(2, 6, false, 5);
}

/* A request that had been lost is executed for the first time: that is the original, too. */
static void test_lost_request_at_the_responder(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	inject_read(0, 0, 2 * MTU, true, key);
	expect_responses(0, 2, true, 2);
	inject_read(0, 0, 2 * MTU, true, key);
	expect_responses(0, 2, true, 2);
}

/* The socket takes a part: the rest is read, and copied, when it leaves. */
static void test_full_socket(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 4 * MTU, false, key);
	rig_full_after = 2;
	roce_flush();
	assert_int_equal(rig_waiting(), 2);
	rig_step();
	rig_step();
	rig_full_after = UINT32_MAX;
	raise_version();
	run_us(1000);
	assert_int_equal(responses[3], 1);
	inject_read(0, 0, 2 * MTU, true, key);
	expect_responses(0, 2, true, 2);
	inject_read(2, 2 * MTU, 2 * MTU, true, key);
	expect_responses(2, 2, true, 3);
}

/* What a peer makes a responder owe is bounded. */
static void test_bounds(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 100 * MTU, false, key);
	expect_responses(0, 100, false, 2);
	rig_full_after = 0;
	for (uint32_t i = 100; i-- > 0;)
		inject_read(i, i * MTU, MTU, true, key);
	assert_in_range(roce_of(b)->replays.tail - roce_of(b)->replays.head, 1, 16);
	rig_full_after = UINT32_MAX;
}

static void inject_word(uint32_t index, bool original)
{
	static const uint8_t word[sizeof(uint64_t)];
	const struct packet packet = {
		.opcode = (uint8_t)packet_find_opcode(PACKET_RC, OPERATION_ATOMIC_WRITE, true, true,
						      0),
		.psn = psn(index),
		.va = (uintptr_t)there,
		.rkey = there_mr->ib.rkey,
		.length = sizeof(word),
		.payload = word,
		.payload_bytes = sizeof(word),
		.original = original,
	};

	rig_inject(a, &packet, word);
	rig_step();
}

/*
 * Responses to duplicates leave in the order of their PSNs. What is asked for as the original where
 * there are no copies is a duplicate as any other.
 */
static void test_asking_without_copies(void **state)
{
	inject_word(0, false);
	inject_read(1, 0, 4 * MTU, false, there_mr->ib.rkey);
	roce_flush();
	while (rig_waiting())
		rig_step();
	inject_read(1, 0, 4 * MTU, false, there_mr->ib.rkey);
	inject_word(0, true);
	assert_null(roce_of(b)->copies);
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).psn.number, psn(0).number);
	assert_false(rig_peek(0).original);
}

/* A forged request, whose PSN or key is wrong, starts no copies; nor does one without effect. */
static void test_forged(void **state)
{
	inject_read(1000, 0, MTU, true, 0xdead);
	assert_null(roce_of(b)->copies);
	inject_read(0, 0, MTU, false, there_mr->ib.rkey);
	expect_responses(0, 1, false, 3);
	inject_read(0, 0, MTU, true, 0xdead);
	inject_read(0, 0, 2 * MTU, true, there_mr->ib.rkey); /* of what was not executed */
	inject_read(1000, 0, MTU, true, there_mr->ib.rkey);
	assert_null(roce_of(b)->copies);
	inject_read(0, 0, MTU, true, there_mr->ib.rkey);
	assert_non_null(roce_of(b)->copies);
}

/* Who has not asked for a copy for long gets no more. */
static void test_given_back(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	inject_read(0, 0, MTU, true, key);
	expect_responses(0, 1, true, 2);
	run_us(9000000);
	inject_read(1, 0, MTU, false, key);
	assert_non_null(roce_of(b)->copies);
	inject_read(1, 0, MTU, true, key);
	run_us(9000000);
	inject_read(2, 0, MTU, false, key);
	assert_non_null(roce_of(b)->copies);
	run_us(2000000);
	inject_read(3, 0, MTU, false, key);
	assert_null(roce_of(b)->copies);
}

/* What is asked for is in part still to be sent: that part comes at its turn, and is marked. */
static void test_overlap(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 100 * MTU, false, key);
	rig_full_after = 20;
	roce_flush();
	assert_int_equal(rig_waiting(), 20);
	while (rig_waiting())
		rig_step();
	inject_read(3, 3 * MTU, 97 * MTU, true, key);
	inject_read(30, 30 * MTU, 70 * MTU, true, key); /* all of it will come */
	rig_full_after = UINT32_MAX;
	roce_flush();
	assert_int_equal(rig_waiting(), 97); /* at once: the other end's window bounds them */
	while (rig_waiting()) {
		assert_true(rig_peek(0).original);
		rig_step();
	}
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(responses[i], i >= 3 && i < 20 ? 2 : 1);
}

/* Of a part that ends before the READ does, what is still to be sent has no mark. */
static void test_overlap_of_a_part(void **state)
{
	uint32_t key = there_mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 10 * MTU, false, key);
	rig_full_after = 5;
	roce_flush();
	while (rig_waiting())
		rig_step();
	inject_read(3, 3 * MTU, 4 * MTU, true, key);
	rig_full_after = UINT32_MAX;
	roce_flush();
	assert_int_equal(rig_waiting(), 7);
	for (uint32_t i = 0; i < 7; i++) {
		assert_int_equal(rig_peek(i).psn.number, psn(3 + i).number);
		assert_int_equal(rig_peek(i).original, i < 2);
	}
}

/* Nor do copies outlive the right of a key that stays. */
static void test_changed_region(void **state)
{
	struct mr *mr = rig_mr(&rig, there, READ_BYTES, READ_ACCESS);
	uint32_t key = mr->ib.rkey;

	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 4 * MTU, false, key);
	expect_responses(0, 4, false, 2);
	inject_read(1, MTU, MTU, true, key);
	assert_int_equal(
		mr_change(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
		0);
	expect_responses(1, 0, true, 0);
	inject_read(1, MTU, MTU, true, key);
	expect_responses(1, 0, true, 0);
	assert_int_equal(mr_destroy(mr), 0);
}

static void post_to_window(enum ibv_wr_opcode opcode, struct mw *window, struct mr *mr,
			   uint32_t key)
{
	struct ibv_send_wr wr = { .opcode = opcode, .invalidate_rkey = key };

	if (opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = &window->ib;
		wr.bind_mw.rkey = key;
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = &mr->ib,
			.addr = (uintptr_t)there,
			.length = READ_BYTES,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		};
	}
	rig_post_send(b, &wr);
	pair_expect(0, IBV_WC_SUCCESS);
}

/* Nor a window that is invalidated between the request and the answer. */
static void test_invalidated_window(void **state)
{
	struct mr *mr = rig_mr(&rig, there, READ_BYTES, READ_ACCESS | IBV_ACCESS_MW_BIND);
	struct mw *window;
	uint32_t key;

	assert_int_equal(mw_create(rig.pd, IBV_MW_TYPE_2, &window), 0);
	key = window->ib.rkey + 1;
	post_to_window(IBV_WR_BIND_MW, window, mr, key);
	copies_start(&roce_of(b)->copies, MTU);
	inject_read(0, 0, 4 * MTU, false, key);
	expect_responses(0, 4, false, 2);
	inject_read(1, MTU, MTU, true, key);
	expect_responses(1, 1, true, 2);
	inject_read(1, MTU, MTU, true, key);
	post_to_window(IBV_WR_LOCAL_INV, window, mr, key);
	expect_responses(1, 0, true, 0);
	inject_read(1, MTU, MTU, true, key);
	expect_responses(1, 0, true, 0);
	assert_int_equal(mw_destroy(window), 0);
	assert_int_equal(mr_destroy(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, read_setup, pair_teardown)
		TEST(copies),
		TEST(copies_in_front),
		TEST(going_back_after_asking),
		TEST(lost_request_at_the_responder),
		TEST(full_socket),
		TEST(bounds),
		TEST(asking_without_copies),
		TEST(forged),
		TEST(given_back),
		TEST(overlap),
		TEST(overlap_of_a_part),
		TEST(changed_region),
		TEST(invalidated_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
