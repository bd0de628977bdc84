/* SPDX-License-Identifier: BSD-2-Clause */
/* SEND, WRITE, READ, immediate data and atomics between two engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int setup(void **state)
{
	rig_create(ALL);
	return 0;
}

/* The first `bytes` are the same at both ends, and the next one is not. */
static void expect_copied(uint32_t bytes)
{
	assert_memory_equal(rig[0].memory, rig[1].memory, bytes);
	assert_int_equal(rig[1].memory[bytes], 0xee);
}

static const uint32_t sizes[] = { 0,	1,    4,    511,  512,	  513,	 4077,
				  4078, 4079, 4082, 4083, 100001, 900000 };
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static void send_all_sizes(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		struct ibv_wc wc;

		memset(rig[1].memory, 0xee, RIG_BYTES);
		rig_receive(1, i, RIG_BYTES);
		rig_post(0, IBV_WR_SEND, sizes[i], 100 + i);
		rig_run();
		rig_expect(0, 100 + i, IBV_WC_SUCCESS);
		wc = rig_expect(1, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_int_equal(wc.wc_flags, 0);
		expect_copied(sizes[i]);
	}
}

static void write_all_sizes(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		memset(rig[1].memory, 0xee, RIG_BYTES);
		rig_post(0, IBV_WR_RDMA_WRITE, sizes[i], i);
		rig_run();
		rig_expect(0, i, IBV_WC_SUCCESS);
		expect_copied(sizes[i]);
	}
}

static void read_all_sizes(void)
{
	for (size_t i = 0; i < SIZES; i++) {
		memset(rig[1].memory, 0xee, RIG_BYTES);
		rig_post(1, IBV_WR_RDMA_READ, sizes[i], i);
		assert_true(rig_is_quiet(1));
		rig_run();
		rig_expect(1, i, IBV_WC_SUCCESS);
		expect_copied(sizes[i]);
	}
}

static void run_all(const struct iwarp_options *options)
{
	rig_connect(options);
	send_all_sizes();
	write_all_sizes();
	read_all_sizes();
	assert_true(rig_is_quiet(0) && rig_is_quiet(1));
	assert_false(rig_has_event());
	assert_int_equal(qp_state(rig[0].qp), IBV_QPS_RTS);
	assert_int_equal(qp_state(rig[1].qp), IBV_QPS_RTS);
}

static void test_all_sizes(void **state)
{
	run_all(NULL);
}

static void test_with_crc(void **state)
{
	struct iwarp_options options = rig_options();

	options.mpa.crc = true;
	run_all(&options);
}

static void test_with_markers(void **state)
{
	struct iwarp_options options = rig_options();

	options.mpa.crc = options.mpa.sends_markers = options.mpa.gets_markers = true;
	options.mulpdu = 65535;
	run_all(&options);
}

static void test_with_markers_without_crc(void **state)
{
	struct iwarp_options options = rig_options();

	options.mpa.gets_markers = true;
	run_all(&options);
}

static void test_longest_ulpdu(void **state)
{
	struct iwarp_options options = rig_options();

	options.mulpdu = 65535;
	run_all(&options);
}

/* Every byte comes alone. */
static void test_cut_at_each_byte(void **state)
{
	rig_connect(NULL);
	rig[0].piece = rig[1].piece = 1;
	rig_receive(1, 1, RIG_BYTES);
	rig_post(0, IBV_WR_SEND, 10000, 2);
	rig_post(0, IBV_WR_RDMA_WRITE, 5000, 3);
	rig_post(1, IBV_WR_RDMA_READ, 5000, 4);
	rig_run();
	for (int i = 0; i < 12000; i++)
		rig_read(0), rig_read(1);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	rig_expect(0, 3, IBV_WC_SUCCESS);
	rig_expect(1, 1, IBV_WC_SUCCESS);
	rig_expect(1, 4, IBV_WC_SUCCESS);
	expect_copied(10000);
}

/* The stream takes a few bytes at a time: what it does not take is staged, and nothing is lost. */
static void test_partial_writes(void **state)
{
	rig_connect(NULL);
	rig[0].room = 7;
	for (int i = 0; i < 8; i++)
		rig_receive(1, i, RIG_BYTES);
	for (int i = 0; i < 8; i++)
		rig_post(0, IBV_WR_SEND, 20000, 10 + i);
	assert_true(iwarp_wants_room(rig[0].qp));
	for (int i = 0; i < 20000 && iwarp_wants_room(rig[0].qp); i++) {
		rig[0].room = 13;
		rig_run();
	}
	for (int i = 0; i < 8; i++) {
		rig_expect(0, 10 + i, IBV_WC_SUCCESS);
		assert_int_equal(rig_expect(1, i, IBV_WC_SUCCESS).byte_len, 20000);
	}
	expect_copied(20000);
}

/* Only what the stream has taken is complete: the stage goes with the QP, and with the process. */
static void complete_as_bytes_leave(bool crc)
{
	struct iwarp_options options = rig_options();

	options.mpa.crc = crc;
	rig_connect(&options);
	iwarp_of(rig[0].qp)->sending.position = UINT32_MAX - 1100; /* its lower half wraps */
	for (int i = 0; i < 3; i++)
		rig_receive(1, i, 1000);
	rig[0].room = 10;
	rig_post(0, IBV_WR_SEND, 1000, 1);
	rig_post(0, IBV_WR_SEND, 100, 2);
	rig_post(0, IBV_WR_RDMA_READ, 1000, 3);
	rig_post(0, IBV_WR_SEND, 1000, 4);
	rig_run();
	assert_true(rig_is_quiet(0));
	rig[0].room = 1160; /* the first two, and a part of the READ's request */
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(0));
	rig[0].room = 100;
	rig_run();
	rig_expect(0, 3, IBV_WC_SUCCESS);
	assert_true(rig_is_quiet(0));
	rig[0].room = SIZE_MAX;
	rig_run();
	rig_expect(0, 4, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		rig_expect(1, i, IBV_WC_SUCCESS);
}

static void test_complete_as_bytes_leave(void **state)
{
	complete_as_bytes_leave(false);
}

static void test_complete_as_bytes_leave_with_crc(void **state)
{
	complete_as_bytes_leave(true);
}

static void test_many_messages_leave_by_one_send(void **state)
{
	struct ibv_send_wr wr[16] = { { 0 } };
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 1000, rig[0].mr->ib.lkey };
	struct qp *qp = rig[0].qp;

	rig_connect(NULL);
	lock_acquire(&qp->lock);
	for (int i = 0; i < 16; i++) {
		rig_receive(1, i, 1000);
		wr[i] = (struct ibv_send_wr){
			.wr_id = 100 + i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
		};
		assert_int_equal(sq_push(&qp->sq, &wr[i]), 0);
	}
	rig[0].sends = 0;
	qp->path->issue(qp);
	lock_release(&qp->lock);
	assert_int_equal(rig[0].sends, 1);
	rig_run();
	for (int i = 0; i < 16; i++) {
		rig_expect(0, 100 + i, IBV_WC_SUCCESS);
		rig_expect(1, i, IBV_WC_SUCCESS);
	}
}

/* Several SGEs, of several regions and lengths, at both ends. */
static void test_gather_and_scatter(void **state)
{
	static uint8_t other[9000];
	struct mr_spec spec = { .pd = rig[0].qp->pd,
				.addr = other,
				.length = sizeof(other),
				.iova = (uintptr_t)other,
				.access = IBV_ACCESS_LOCAL_WRITE };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .num_sge = 4 };
	struct ibv_sge sges[4];
	struct mr *mr;

	assert_int_equal(mr_create(&spec, &mr), 0);
	memset(other, 0x5a, sizeof(other));
	sges[0] = (struct ibv_sge){ (uintptr_t)rig[0].memory, 3000, rig[0].mr->ib.lkey };
	sges[1] = (struct ibv_sge){ (uintptr_t)other, 9000, mr->ib.lkey };
	sges[2] = (struct ibv_sge){ (uintptr_t)rig[0].memory + 3000, 0, rig[0].mr->ib.lkey };
	sges[3] = (struct ibv_sge){ (uintptr_t)rig[0].memory + 3000, 777, rig[0].mr->ib.lkey };
	wr.sg_list = sges;
	rig_connect(NULL);
	rig_receive(1, 2, RIG_BYTES);
	rig_post_wr(0, &wr);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(rig_expect(1, 2, IBV_WC_SUCCESS).byte_len, 12777);
	assert_memory_equal(rig[1].memory, rig[0].memory, 3000);
	assert_memory_equal(rig[1].memory + 3000, other, 9000);
	assert_memory_equal(rig[1].memory + 12000, rig[0].memory + 3000, 777);
	/* a READ into the same list */
	memset(rig[0].memory, 1, 4000);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr_id = 3;
	wr.wr.rdma.remote_addr = (uintptr_t)rig[1].memory;
	wr.wr.rdma.rkey = rig[1].mr->ib.rkey;
	memset(other, 0, sizeof(other));
	rig_post_wr(0, &wr);
	rig_run();
	rig_expect(0, 3, IBV_WC_SUCCESS);
	assert_memory_equal(rig[1].memory, rig[0].memory, 3000);
	assert_memory_equal(rig[1].memory + 3000, other, 9000);
	assert_memory_equal(rig[1].memory + 12000, rig[0].memory + 3000, 777);
	assert_int_equal(mr_destroy(mr), 0);
}

static void test_inline(void **state)
{
	char text[] = "inline data";
	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), 0 };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE
	};

	rig_connect(NULL);
	rig_receive(1, 2, 100);
	rig_post_wr(0, &wr);
	memset(text, 0, sizeof(text));
	rig_run();
	rig_expect(1, 2, IBV_WC_SUCCESS);
	assert_string_equal((char *)rig[1].memory, "inline data");
}

static void test_immediate_data(void **state)
{
	struct ibv_wc wc;

	rig_connect(NULL);
	for (uint32_t bytes = 0; bytes < 20000; bytes += 9999) {
		rig_receive(1, 7, 10);
		rig_post(0, IBV_WR_RDMA_WRITE_WITH_IMM, bytes, 8);
		rig_run();
		rig_expect(0, 8, IBV_WC_SUCCESS);
		wc = rig_expect(1, 7, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
		assert_int_equal(wc.imm_data, RIG_IMM);
		assert_int_equal(wc.byte_len, bytes);
		expect_copied(bytes);
	}
}

static void test_atomics(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig[0].memory + 64, 8, rig[0].mr->ib.lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1
	};
	uint64_t *word = (uint64_t *)rig[1].memory, *result = (uint64_t *)(rig[0].memory + 64);

	rig_connect(NULL);
	*word = 40;
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = rig[1].mr->ib.rkey;
	wr.wr.atomic.compare_add = 2;
	rig_post_wr(0, &wr);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(*word, 42);
	assert_int_equal(*result, 40);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 0x1122334455667788;
	rig_post_wr(0, &wr);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(*word, 0x1122334455667788);
	assert_int_equal(*result, 42);
	rig_post_wr(0, &wr);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(*result, 0x1122334455667788);
}

/* No more than ORD are outstanding, and the others follow. */
static void test_ord(void **state)
{
	rig_connect(NULL);
	for (int i = 0; i < 12; i++)
		rig_post(1, IBV_WR_RDMA_READ, 10000, i);
	assert_int_equal(rig[1].qp->sq.issue - rig[1].qp->sq.head, 4);
	rig_run();
	for (int i = 0; i < 12; i++)
		rig_expect(1, i, IBV_WC_SUCCESS);
	assert_false(rig_has_event());
}

/* As many as the connection agreed on, and an RTR before them, which needs no place of its own. */
static void test_other_depths(void **state)
{
	static const uint16_t depths[] = { 0, 1, 3, LIMIT_QP_RD_ATOM };

	for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct iwarp_options options = rig_options();
		unsigned depth = depths[i];

		options.mpa.ord = options.mpa.ird = depths[i];
		options.mpa.rtr = depth ? MPA_RTR_READ : MPA_RTR_WRITE;
		rig_connect(&options);
		assert_int_equal(iwarp_outstanding(iwarp_of(rig[0].qp)), depth ? 1 : 0);
		for (unsigned n = 0; n < (depth ? 40 : 0); n++)
			rig_post(0, IBV_WR_RDMA_READ, 100, n);
		assert_int_equal(iwarp_outstanding(iwarp_of(rig[0].qp)), depth);
		rig_run();
		for (unsigned n = 0; n < (depth ? 40 : 0); n++)
			rig_expect(0, n, IBV_WC_SUCCESS);
		assert_false(rig_has_event());
		rig_destroy(state);
		rig_create(ALL);
	}
	rig_connect(NULL);
}

/* READs are counted in 32 bits: more than 4294967296 of a connection are answered like the first.
 */
static void test_more_reads_than_are_counted(void **state)
{
	rig_connect(NULL);
	for (int end = 0; end < 2; end++) {
		struct iwarp_qp *iq = iwarp_of(rig[end].qp);

		iq->outstanding_head = iq->outstanding_tail = UINT32_MAX - 1;
		iq->response_head = iq->response_tail = UINT32_MAX - 1;
	}
	memset(rig[1].memory, 0xee, RIG_BYTES);
	for (unsigned i = 0; i < 8; i++)
		rig_post(1, IBV_WR_RDMA_READ, 100 + i, i);
	rig_run();
	for (unsigned i = 0; i < 8; i++)
		rig_expect(1, i, IBV_WC_SUCCESS);
	expect_copied(107);
}

/* A SEND after a READ is sent at once, and completes after it; with a fence it waits. */
static void test_order_and_fence(void **state)
{
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 100, rig[0].mr->ib.lkey };
	struct ibv_send_wr wr = { .wr_id = 3,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_FENCE };
	size_t sent;

	rig_connect(NULL);
	rig_receive(1, 10, 100);
	rig_receive(1, 11, 100);
	rig_post(0, IBV_WR_RDMA_READ, 100, 1);
	sent = rig[0].tail;
	rig_post(0, IBV_WR_SEND, 100, 2);
	assert_true(rig[0].tail > sent);
	sent = rig[0].tail;
	rig_post_wr(0, &wr);
	assert_int_equal(rig[0].tail, sent);
	assert_true(rig_is_quiet(0));
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	rig_expect(0, 3, IBV_WC_SUCCESS);
	rig_expect(1, 10, IBV_WC_SUCCESS);
	rig_expect(1, 11, IBV_WC_SUCCESS);
}

/*
 * What is staged is finished, also if the stage is full: so a READ whose response cannot be stored
 * fails at once, and nothing more of the response is taken.
 */
static void test_bad_sink_behind_a_full_stage(void **state)
{
	struct iwarp_options options = rig_options();
	struct ibv_sge sge = { (uintptr_t)rig[0].memory, 16384, 0xbad00 };
	struct ibv_send_wr first = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr bad = {
		.wr_id = 2,
		.opcode = IBV_WR_RDMA_READ,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { (uintptr_t)rig[1].memory, rig[1].mr->ib.rkey },
	};

	options.mpa.sends_markers = true;
	rig_connect(&options);
	rig_receive(1, 5, 100);
	rig[0].room = 1000;
	assert_int_equal(sq_push(&rig[0].qp->sq, &first), 0);
	assert_int_equal(sq_push(&rig[0].qp->sq, &bad), 0);
	rig_post(0, IBV_WR_RDMA_WRITE, 300000, 3);
	rig_read(1);
	rig_read(0);
	rig_read(0);
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_LOC_PROT_ERR);
	rig_expect(0, 3, IBV_WC_WR_FLUSH_ERR);
	rig_expect(1, 5, IBV_WC_SUCCESS);
}

/* A long response leaves by shares, however much the stream takes. */
static void test_shares_of_a_response(void **state)
{
	rig_connect(NULL);
	rig_post(0, IBV_WR_RDMA_READ, RIG_BYTES, 1);
	rig_read(1);
	assert_in_range(rig[1].tail, 256 << 10, 300 << 10);
	rig_read(1);
	assert_in_range(rig[1].tail, 256 << 10, 300 << 10);
	assert_int_equal(rig[1].turns, 1);
	assert_true(rig_make_room(1));
	assert_in_range(rig[1].tail, 512 << 10, 600 << 10);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(rig[1].turns, 4); /* headers count */
	assert_memory_equal(rig[0].memory, rig[1].memory, RIG_BYTES);
}

/* So do requests, be it one long one or many: the QP is locked meanwhile. */
static void test_shares_of_requests(void **state)
{
	rig_connect(NULL);
	rig_post(0, IBV_WR_RDMA_WRITE, RIG_BYTES, 1);
	rig_post(0, IBV_WR_RDMA_WRITE, RIG_BYTES, 2);
	assert_in_range(rig[0].tail, 256 << 10, 300 << 10);
	assert_int_equal(rig[0].turns, 1);
	assert_true(iwarp_wants_room(rig[0].qp));
	rig_read(0);
	assert_in_range(rig[0].tail, 256 << 10, 300 << 10);
	assert_true(rig_make_room(0));
	assert_in_range(rig[0].tail, 512 << 10, 600 << 10);
	rig_run();
	rig_expect(0, 1, IBV_WC_SUCCESS);
	rig_expect(0, 2, IBV_WC_SUCCESS);
	assert_in_range(rig[0].turns, 7, 8);
	assert_memory_equal(rig[0].memory, rig[1].memory, RIG_BYTES);
}

/* A request counts as issued when all of it is (sq.h), also if it takes several segments. */
static void test_state_of_a_request_under_way(void **state)
{
	struct sq *sq = &rig[0].qp->sq;
	uint32_t seq = sq->tail;

	rig_connect(NULL);
	rig[0].room = 5000;
	rig_post(0, IBV_WR_RDMA_WRITE, 300000, 1);
	assert_int_equal(sq->issue, seq);
	assert_int_equal(sq_wqe(sq, seq)->state, WQE_POSTED);
	rig_post(0, IBV_WR_RDMA_READ, 1000, 2);
	rig[0].room = SIZE_MAX;
	rig_make_room(0);
	rig_expect(0, 1, IBV_WC_SUCCESS);
	assert_int_equal(sq->issue, seq + 2);
	assert_int_equal(sq_wqe(sq, seq + 1)->state, WQE_ISSUED);
	rig_run();
	rig_expect(0, 2, IBV_WC_SUCCESS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_destroy)
	const struct CMUnitTest tests[] = {
		TEST(test_all_sizes),
		TEST(test_with_crc),
		TEST(test_with_markers),
		TEST(test_with_markers_without_crc),
		TEST(test_longest_ulpdu),
		TEST(test_cut_at_each_byte),
		TEST(test_partial_writes),
		TEST(test_complete_as_bytes_leave),
		TEST(test_complete_as_bytes_leave_with_crc),
		TEST(test_many_messages_leave_by_one_send),
		TEST(test_gather_and_scatter),
		TEST(test_inline),
		TEST(test_immediate_data),
		TEST(test_atomics),
		TEST(test_ord),
		TEST(test_other_depths),
		TEST(test_more_reads_than_are_counted),
		TEST(test_order_and_fence),
		TEST(test_bad_sink_behind_a_full_stage),
		TEST(test_shares_of_a_response),
		TEST(test_shares_of_requests),
		TEST(test_state_of_a_request_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
