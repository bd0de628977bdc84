/* SPDX-License-Identifier: BSD-2-Clause */
/* SEND, WRITE, READ and atomics of connected QPs: data, completions, packets. */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES (1024 * 1024)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t here[BYTES] PAIR_ALIGNED, there[BYTES] PAIR_ALIGNED;

static void connect(enum ibv_qp_type type, const struct rig_options *options)
{
	pair_connect(type, &(struct rig_options){
				   .mtu = options->mtu,
				   .access = options->access,
				   .timeout = options->timeout,
				   .retry_cnt = options->retry_cnt,
				   .rnr_retry = options->rnr_retry,
				   .min_rnr_timer = options->min_rnr_timer,
				   .rd_atomic = options->rd_atomic,
				   .psn = options->psn ? options->psn : 0xfffff0,
			   });
}

/* PSN 0 stands for one shortly before they wrap. */
#define CONNECT(type, ...)                                                                         \
	connect(type, &(struct rig_options){ .access = ACCESS,                                     \
					     .timeout = 14,                                        \
					     .retry_cnt = 7,                                       \
					     .rnr_retry = 7,                                       \
					     .min_rnr_timer = 12,                                  \
					     __VA_ARGS__ })

static int setup(void **state)
{
	pair_regions(here, there, BYTES, ACCESS);
	return 0;
}

static void run(void)
{
	rig_run(rig_now_ns + 100000000);
}

/* The receive completes before the send is acknowledged. */
static struct ibv_wc expect_receive(uint64_t wr_id, uint32_t bytes)
{
	struct ibv_wc wc = rig_completion(&rig);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.byte_len, bytes);
	return wc;
}

static const uint32_t sizes[] = { 0, 1, 3, 4, 1023, 1024, 1025, 4096, 65536, 300001, BYTES };

static void sends(enum ibv_qp_type type)
{
	CONNECT(type);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_sge sge = { (uintptr_t)there, BYTES, there_mr->ib.lkey };

		memset(there, 0xee, BYTES);
		rig_post_receive(b, 100 + i, &sge);
		pair_post(IBV_WR_SEND, sizes[i], i);
		run();
		if (type == IBV_QPT_UC)
			pair_expect(i, IBV_WC_SUCCESS);
		expect_receive(100 + i, sizes[i]);
		if (type == IBV_QPT_RC)
			pair_expect(i, IBV_WC_SUCCESS);
		assert_memory_equal(here, there, sizes[i]);
		assert_true(sizes[i] == BYTES || there[sizes[i]] == 0xee);
	}
}

static void test_send(void **state)
{
	sends(IBV_QPT_RC);
}

static void test_unreliable_send(void **state)
{
	sends(IBV_QPT_UC);
}

static void test_write(void **state)
{
	CONNECT(IBV_QPT_RC);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(there, 0xee, BYTES);
		pair_post(IBV_WR_RDMA_WRITE, sizes[i], i);
		run();
		pair_expect(i, IBV_WC_SUCCESS);
		assert_memory_equal(here, there, sizes[i]);
		assert_true(sizes[i] == BYTES || there[sizes[i]] == 0xee);
	}
}

/* A plain WRITE completes no receive: its packet has no SE, whatever the program says. */
static void test_solicited(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool solicited;
	} rows[] = {
		{ IBV_WR_SEND, true },
		{ IBV_WR_SEND_WITH_IMM, true },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, true },
		{ IBV_WR_RDMA_WRITE, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_sge sge = { (uintptr_t)there, BYTES, there_mr->ib.lkey };
		struct ibv_send_wr wr = { .opcode = rows[i].opcode,
					  .send_flags = IBV_SEND_SOLICITED,
					  .wr.rdma = { (uintptr_t)there, there_mr->ib.rkey } };

		CONNECT(IBV_QPT_RC);
		rig_post_receive(b, 1, &sge);
		rig_post_send(a, &wr);
		assert_int_equal(rig_waiting(), 1);
		assert_int_equal(rig_peek(0).solicited, rows[i].solicited);
		run();
		while (!rig_is_quiet(&rig))
			assert_int_equal(rig_completion(&rig).status, IBV_WC_SUCCESS);
		assert_int_equal(qp_destroy(a), 0);
		assert_int_equal(qp_destroy(b), 0);
	}
	CONNECT(IBV_QPT_RC);
}

static void test_write_with_immediate(void **state)
{
	struct ibv_wc wc;

	CONNECT(IBV_QPT_RC);
	rig_post_receive(b, 9, NULL);
	pair_post(IBV_WR_RDMA_WRITE_WITH_IMM, 5000, 1);
	run();
	wc = expect_receive(9, 5000);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, PAIR_IMM);
	pair_expect(1, IBV_WC_SUCCESS);
	assert_memory_equal(here, there, 5000);
}

static void test_read(void **state)
{
	CONNECT(IBV_QPT_RC, .rd_atomic = 1);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(there, 0x11 + (int)i, BYTES);
		memset(here, 0xee, BYTES);
		pair_post(IBV_WR_RDMA_READ, sizes[i], i);
		run();
		pair_expect(i, IBV_WC_SUCCESS);
		assert_memory_equal(here, there, sizes[i]);
		assert_true(sizes[i] == BYTES || here[sizes[i]] == 0xee);
	}
}

/* Many READs at once, more than max_rd_atomic, with SENDs in between. */
static void test_reads_in_order(void **state)
{
	CONNECT(IBV_QPT_RC, .rd_atomic = 3);
	for (uint32_t i = 0; i < BYTES; i++)
		there[i] = (uint8_t)(i * 13 + i / 5000);
	for (unsigned i = 0; i < 10; i++) {
		rig_post_receive(b, 100 + i, NULL);
		pair_post(IBV_WR_RDMA_READ, 100000, i);
		pair_post(IBV_WR_SEND, 0, 50 + i);
	}
	run();
	for (unsigned i = 0; i < 10; i++) {
		struct ibv_wc wc;
		bool sent = false, read = false;

		/*
		 * the receive may complete before or after the READ before it, but each in its
		 * order
		 */
		for (unsigned n = 0; n < 2; n++) {
			wc = rig_completion(&rig);
			if (wc.wr_id >= 100) {
				n--;
				continue;
			}
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			read |= wc.wr_id == i;
			sent |= wc.wr_id == 50 + i;
			assert_true(read);
		}
		assert_true(sent && read);
	}
	assert_memory_equal(here, there, 100000);
}

static void test_atomics(void **state)
{
	struct ibv_sge sge = { (uintptr_t)here, 8, here_mr->ib.lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = { .remote_addr = (uintptr_t)there,
			       .rkey = there_mr->ib.rkey,
			       .compare_add = 5 },
	};

	CONNECT(IBV_QPT_RC);
	*(uint64_t *)there = 37;
	rig_post_send(a, &wr);
	run();
	pair_expect(0, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)here, 37);
	assert_int_equal(*(uint64_t *)there, 42);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 0x1122334455667788;
	rig_post_send(a, &wr);
	run();
	pair_expect(0, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)here, 42);
	assert_int_equal(*(uint64_t *)there, 0x1122334455667788);
	rig_post_send(a, &wr); /* the comparison fails */
	run();
	pair_expect(0, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)here, 0x1122334455667788);
	assert_int_equal(*(uint64_t *)there, 0x1122334455667788);
}

/* Pieces of several regions, and inline data. */
static void test_gathered(void **state)
{
	struct ibv_sge receive = { (uintptr_t)there, BYTES, there_mr->ib.lkey };
	uint8_t text[200];
	struct ibv_sge sge[4] = {
		{ (uintptr_t)here, 700, here_mr->ib.lkey },
		{ (uintptr_t)there + 500000, 1500, there_mr->ib.lkey },
		{ (uintptr_t)here + 9000, 0, here_mr->ib.lkey },
		{ (uintptr_t)here + 700, 300, here_mr->ib.lkey },
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 4 };

	CONNECT(IBV_QPT_RC);
	rig_post_receive(b, 1, &receive);
	rig_post_send(a, &wr);
	run();
	expect_receive(1, 2500);
	pair_expect(0, IBV_WC_SUCCESS);
	assert_memory_equal(there, here, 700);
	assert_memory_equal(there + 700, there + 500000, 1500);
	assert_memory_equal(there + 2200, here + 700, 300);

	memset(text, 'x', sizeof(text));
	sge[0] = (struct ibv_sge){ (uintptr_t)text, sizeof(text), 0 };
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	rig_post_receive(b, 2, &receive);
	rig_post_send(a, &wr);
	memset(text, 'y', sizeof(text));
	run();
	expect_receive(2, 200);
	pair_expect(0, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(there[i], 'x');
}

/*
 * A fenced request waits for the answers to READs and atomics, and for nothing else (IBA 10.8.3.3).
 */
static void test_fence(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_FENCE };

	CONNECT(IBV_QPT_RC);
	rig_post_receive(b, 10, NULL);
	rig_post_receive(b, 11, NULL);
	pair_post(IBV_WR_RDMA_WRITE, 8, 1);
	rig_post_send(a, &wr);
	assert_int_equal(rig_waiting(), 2);
	run();
	expect_receive(10, 0);
	pair_expect(1, IBV_WC_SUCCESS);
	pair_expect(3, IBV_WC_SUCCESS);
	pair_post(IBV_WR_RDMA_READ, 2000, 2);
	rig_post_send(a, &wr);
	assert_int_equal(rig_waiting(), 1);
	assert_true(rig_step());
	roce_flush(); /* two responses */
	assert_int_equal(rig_waiting(), 2);
	assert_true(rig_step());
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_true(rig_step());
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	assert_int_equal(rig_peek(0).opcode, 0x04);
	run();
	pair_expect(2, IBV_WC_SUCCESS);
	expect_receive(11, 0);
	pair_expect(3, IBV_WC_SUCCESS);
}

/* One acknowledgement for a burst of small messages, and the opcodes of a long one. */
static void test_packets(void **state)
{
	enum { MESSAGES = 4 }; /* few enough to leave at once */
	struct packet packet;

	CONNECT(IBV_QPT_RC, .psn = 0xffffff);
	pair_post(IBV_WR_RDMA_WRITE, 2500, 0);
	assert_int_equal(rig_waiting(), 3);
	packet = rig_peek(0);
	assert_int_equal(packet.opcode, 0x06);
	assert_int_equal(packet.psn.number, 0xffffff);
	assert_int_equal(packet.length, 2500);
	assert_int_equal(packet.rkey, there_mr->ib.rkey);
	assert_false(packet.ack_req);
	packet = rig_peek(1);
	assert_int_equal(packet.opcode, 0x07);
	assert_int_equal(packet.psn.number, 0);
	packet = rig_peek(2);
	assert_int_equal(packet.opcode, 0x08);
	assert_int_equal(packet.payload_bytes, 452);
	assert_true(packet.ack_req);
	for (unsigned i = 1; i < MESSAGES; i++)
		pair_post(IBV_WR_RDMA_WRITE, 8, i);
	while (rig_waiting())
		assert_true(rig_step());
	roce_flush();
	assert_int_equal(rig_waiting(), 1);
	packet = rig_peek(0);
	assert_int_equal(packet.opcode, 0x11);
	assert_int_equal(packet.psn.number, MESSAGES);
	assert_int_equal(packet.syndrome, 31);
	assert_int_equal(packet.msn, MESSAGES);
	run();
	for (unsigned i = 0; i < MESSAGES; i++)
		pair_expect(i, IBV_WC_SUCCESS);
}

/*
 * A packet points to as many places of the program's memory as it has pieces; of more it has a
 * copy.
 */
static void test_as_many_sges_as_pieces_and_one_more(void **state)
{
	CONNECT(IBV_QPT_RC);
	for (int count = WIRE_PIECES - 1; count <= WIRE_PIECES + 1; count++) {
		struct ibv_sge to = { (uintptr_t)there, 1000, there_mr->ib.lkey };
		struct ibv_sge sge[WIRE_PIECES + 1];
		struct ibv_send_wr wr = {
			.wr_id = (uint64_t)count,
			.opcode = IBV_WR_SEND,
			.sg_list = sge,
			.num_sge = count,
		};

		for (int i = 0; i < count; i++)
			sge[i] = (struct ibv_sge){ (uintptr_t)here + 1000u * (unsigned)i, 100,
						   here_mr->ib.lkey };
		rig_post_receive(b, 7, &to);
		rig_post_send(a, &wr);
		run();
		expect_receive(7, 100u * (unsigned)count);
		pair_expect((uint64_t)count, IBV_WC_SUCCESS);
		for (int i = 0; i < count; i++)
			assert_memory_equal(there + 100 * i, here + 1000 * i, 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, pair_teardown)
		TEST(send),	      TEST(unreliable_send),
		TEST(write),	      TEST(write_with_immediate),
		TEST(solicited),      TEST(read),
		TEST(reads_in_order), TEST(atomics),
		TEST(gathered),	      TEST(fence),
		TEST(packets),	      TEST(as_many_sges_as_pieces_and_one_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
