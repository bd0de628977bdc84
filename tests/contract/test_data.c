/* SPDX-License-Identifier: BSD-2-Clause */
/* What arrives, when, and what the completions say: rules 13, 20, 22, 23, 27 and 28. */
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "expect.h"

#define TARGET 65536u
#define BUFFER (1u << 20)

static void rule_13_sge_list_taken_at_post(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	/* op_post_* overwrite requests and SGE lists as soon as the post returns. */
	pair_connect(pair, WITH());
	fill(a, 0, 3000, 4);
	post_send(a, 0,
		  SEND(.wr_id = 1, .num_sge = 3,
		       .sge = { { a->addr, 1000, a->lkey },
				{ a->addr + 1000, 1, a->lkey },
				{ a->addr + 1001, 1999, a->lkey } }));
	expect_none(a, SENDS);
	post_receive(b, 0,
		     RECEIVE(.wr_id = 50, .num_sge = 4,
			     .sge = { { b->addr + TARGET, 7, b->lkey },
				      { b->addr + TARGET + 7, 0, b->lkey },
				      { b->addr + TARGET + 7, 2000, b->lkey },
				      { b->addr + TARGET + 2007, 2000, b->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(expect(b, RECEIVES, 50, IBV_WC_SUCCESS).byte_len == 3000, "byte_len");
	expect_bytes(b, TARGET, 3000, 4);
}

static void rule_13_receive_list_taken_at_post(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	fill(b, 0, BUFFER, 0);
	post_receive(b, 0,
		     RECEIVE(.wr_id = 50, .num_sge = 2,
			     .sge = { { b->addr + TARGET, 64, b->lkey },
				      { b->addr + 2 * TARGET, 64, b->lkey } }));
	fill(a, 0, 64, 4);
	fill(a, 64, 32, 5);
	post_send(a, 0, SEND(.wr_id = 1, .length = 96));
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, TARGET, 64, 4);
	expect_bytes(b, 2 * TARGET, 32, 5);
	expect_bytes(b, 2 * TARGET + 32, 32, 0);
}

/* Inline data is the program's again when the post returns, and needs no key. */
static void rule_13_inline_taken_at_post(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	fill(a, 0, 64, 6);
	post_send(a, 0,
		  SEND(.wr_id = 1, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .num_sge = 2,
		       .sge = { { a->addr, 40, 0xdead }, { a->addr + 40, 24, 0xbeef } }));
	fill(a, 0, 64, 7);
	post_send(a, 0,
		  WRITE(b, TARGET, .wr_id = 2, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
			.num_sge = 1, .sge = { { a->addr, 64, 0xdead } }));
	fill(a, 0, 64, 8);
	expect_none(a, SENDS); /* there is no receive yet */
	post_receive(b, 0, RECEIVE(.wr_id = 50, .offset = 128, .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, 128, 64, 6);
	expect_bytes(b, TARGET, 64, 7);
}

static void rule_20_zero_length_send(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	fill(b, 0, BUFFER, 0);
	for (uint64_t i = 0; i < 4; i++) {
		bool sge_here = i & 1, sge_there = i & 2;
		struct request request =
			SEND(.wr_id = i, .num_sge = sge_here, .sge = { { a->addr, 0, a->lkey } });
		struct receive receive = { .wr_id = 50 + i, .length = sge_there ? 64 : 0 };
		struct ibv_wc wc;

		post_receive(b, 0, receive);
		post_send(a, 0, request);
		expect(a, SENDS, i, IBV_WC_SUCCESS);
		wc = expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
		REQUIRE(wc.byte_len == 0, "byte_len %u", wc.byte_len);
		REQUIRE(wc.opcode == IBV_WC_RECV, "opcode %d", wc.opcode);
	}
	expect_bytes(b, 0, BUFFER, 0);
}

/* Neither R_Key nor address is checked, nor the rights of region and QP. */
static void rule_20_zero_length_write_and_read(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	fill(b, 0, BUFFER, 0);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1));
	post_send(a, 0, READ(b, 0, .wr_id = 2));
	post_send(a, 0, REQUEST(.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .rkey = 0xbad));
	post_send(a, 0,
		  REQUEST(.wr_id = 4, .opcode = IBV_WR_RDMA_READ, .rkey = 0xbad,
			  .remote = UINT64_MAX));
	for (uint64_t i = 1; i <= 4; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	expect_bytes(b, 0, BUFFER, 0);
	expect_working(pair, 0);
}

static void rule_20_zero_length_write_with_imm(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_wc wc;

	pair_connect(pair, WITH());
	post_receive(b, 0, RECEIVE(.wr_id = 50));
	post_send(a, 0,
		  REQUEST(.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .rkey = 0xbad,
			  .imm = htonl(77)));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	wc = expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	REQUIRE(wc.byte_len == 0 && wc.imm_data == htonl(77), "byte_len %u", wc.byte_len);
}

/* Every kind of request moves exactly its bytes, with lengths around the limits of both paths. */
static void rule_22_all_sizes(struct pair *pair)
{
	static const uint32_t sizes[] = { 1,	3,     8,     63,    64,    65,	    255,
					  256,	1023,  1024,  1025,  4095,  4096,   4097,
					  8191, 16385, 65535, 65536, 65537, 131073, 262147 };
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.size = 2 << 20));
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i], at = TARGET + 13 + i;

		fill(a, 5, n, i + 1);
		fill(b, at - 16, n + 32, 0);
		post_receive(b, 0, RECEIVE(.wr_id = 50, .offset = at, .length = n));
		post_send(a, 0, SEND(.wr_id = 1, .offset = 5, .length = n));
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		REQUIRE(expect(b, RECEIVES, 50, IBV_WC_SUCCESS).byte_len == n, "byte_len");
		expect_bytes(b, at, n, i + 1);
		expect_bytes(b, at - 16, 16, 0);
		expect_bytes(b, at + n, 16, 0);

		fill(b, at - 16, n + 32, 0);
		post_send(a, 0, WRITE(b, at, .wr_id = 2, .offset = 5, .length = n));
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect_bytes(b, at, n, i + 1);
		expect_bytes(b, at - 16, 16, 0);
		expect_bytes(b, at + n, 16, 0);

		fill(a, TARGET, n + 32, 0);
		fill(b, at, n, i + 2);
		post_send(a, 0, READ(b, at, .wr_id = 3, .offset = TARGET + 16, .length = n));
		REQUIRE(expect(a, SENDS, 3, IBV_WC_SUCCESS).byte_len == n, "byte_len of a READ");
		expect_bytes(a, TARGET + 16, n, i + 2);
		expect_bytes(a, TARGET, 16, 0);
		expect_bytes(a, TARGET + 16 + n, 16, 0);
	}
	expect_no_async(a);
	expect_no_async(b);
}

/* Receive completions have the opcode and flags of the peer's sends. */
static void rule_22_opcodes_and_flags(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());

	const struct {
		struct request request;
		enum ibv_wc_opcode sent, received;
		unsigned int wc_flags;
		bool receives;
	} rows[] = {
		{ SEND(.length = 64), IBV_WC_SEND, IBV_WC_RECV, 0, true },
		{ SEND(.length = 64, .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED), IBV_WC_SEND,
		  IBV_WC_RECV, 0, true },
		{ REQUEST(.opcode = IBV_WR_SEND_WITH_IMM, .length = 64, .imm = htonl(0xa1b2c3d4)),
		  IBV_WC_SEND, IBV_WC_RECV, IBV_WC_WITH_IMM, true },
		{ WRITE_IMM(b, TARGET, .length = 64, .imm = htonl(0xa1b2c3d4)), IBV_WC_RDMA_WRITE,
		  IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, true },
		{ WRITE(b, TARGET, .length = 64), IBV_WC_RDMA_WRITE, 0, 0, false },
		{ READ(b, TARGET, .length = 64), IBV_WC_RDMA_READ, 0, 0, false },
		{ FETCH_ADD(b, TARGET), IBV_WC_FETCH_ADD, 0, 0, false },
		{ CMP_SWP(b, TARGET), IBV_WC_COMP_SWAP, 0, 0, false },
	};

	for (uint64_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct request request = rows[i].request;
		struct ibv_wc wc;

		request.wr_id = i;
		if (rows[i].receives)
			post_receive(b, 0, RECEIVE(.wr_id = 50 + i, .length = 64));
		post_send(a, 0, request);
		wc = expect(a, SENDS, i, IBV_WC_SUCCESS);
		REQUIRE(wc.opcode == rows[i].sent, "row %d: opcode %d", (int)i, wc.opcode);
		REQUIRE(wc.wc_flags == 0, "row %d: wc_flags 0x%x", (int)i, wc.wc_flags);
		if (!rows[i].receives)
			continue;
		wc = expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
		REQUIRE(wc.opcode == rows[i].received, "row %d: opcode %d", (int)i, wc.opcode);
		REQUIRE(wc.byte_len == 64, "row %d: byte_len %u", (int)i, wc.byte_len);
		REQUIRE(wc.wc_flags == rows[i].wc_flags, "row %d: wc_flags 0x%x", (int)i,
			wc.wc_flags);
		REQUIRE(!wc.wc_flags || wc.imm_data == htonl(0xa1b2c3d4), "row %d: imm_data %x",
			(int)i, ntohl(wc.imm_data));
		/* On adapters src_qp of a connected QP's completion is the remote QP, or 0. */
		REQUIRE(wc.src_qp == a->qpn[0] || wc.src_qp == 0, "row %d: src_qp", (int)i);
	}
	expect_none(b, RECEIVES);
	expect_none(a, SENDS);
}

static void rule_22_write_with_imm_touches_no_buffer(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 1, 64, 4096, 70000, 300000 };

	pair_connect(pair, WITH());
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t n = sizes[i];
		struct ibv_wc wc;

		fill(a, 0, n, i + 1);
		fill(b, 0, BUFFER, 0);
		/* The receive is shorter than the payload, even empty: it does not matter. */
		post_receive(b, 0, RECEIVE(.wr_id = 50 + i, .length = i % 2 ? 64 : 0));
		post_send(a, 0, WRITE_IMM(b, TARGET, .wr_id = i, .length = n, .imm = htonl(i)));
		expect(a, SENDS, i, IBV_WC_SUCCESS);
		wc = expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
		REQUIRE(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "opcode %d", wc.opcode);
		REQUIRE(wc.byte_len == n, "byte_len %u instead of %u", wc.byte_len, n);
		REQUIRE(wc.imm_data == htonl(i), "imm_data");
		expect_bytes(b, 0, TARGET, 0);
		expect_bytes(b, TARGET, n, i + 1);
		expect_bytes(b, TARGET + n, 4096, 0);
	}
}

/*
 * Many READs and atomics of one word in turn. Only with one at a time does a READ not see what
 * atomics after it have added (IBA 10.8.3.3).
 */
static void read_and_add(struct end *a, struct end *b, bool one_by_one)
{
	poke(b, TARGET, 100);
	for (uint64_t i = 0; i < 32; i++) {
		uint32_t offset = (uint32_t)i * 8;

		post_send(a, 0,
			  i % 2 ? READ(b, TARGET, .wr_id = i, .offset = offset, .length = 8)
				: FETCH_ADD(b, TARGET, .wr_id = i, .offset = offset,
					    .compare_add = 1));
	}
	for (uint64_t i = 0; i < 32; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 32; i++) {
		uint64_t least = 100 + (i + 1) / 2, got = peek(a, i * 8);

		REQUIRE(got >= least && got <= (i % 2 == 0 || one_by_one ? least : 116),
			"READ and atomic %d got %llu", (int)i, (unsigned long long)got);
	}
}

static void rule_23_more_reads_than_max_rd_atomic(struct pair *pair)
{
	pair_connect(pair, WITH(.rd_atomic = 1));
	read_and_add(&pair->a, &pair->b, true);
}

static void rule_23_above_the_limit_is_refused(struct pair *pair)
{
	struct ibv_device_attr limits;

	pair_make(pair, WITH());
	REQUIRE(ibv_query_device(pair->a.side->context, &limits) == 0, "ibv_query_device");
	REQUIRE(limits.max_qp_rd_atom > 0 && limits.max_qp_init_rd_atom > 0, "no READs at all");
	if (limits.max_qp_rd_atom > 254 || limits.max_qp_init_rd_atom > 254)
		skip_because("the limits do not fit the attribute");
	REQUIRE(end_move(&pair->a, &pair->b, 0, IBV_QPS_INIT) == 0, "INIT");
	pair->a.side->options.rd_atomic = (uint8_t)(limits.max_qp_rd_atom + 1);
	REQUIRE(end_move(&pair->a, &pair->b, 0, IBV_QPS_RTR) == EINVAL,
		"max_dest_rd_atomic over the limit was accepted");
	expect_state(&pair->a, 0, IBV_QPS_INIT);
	pair->a.side->options.rd_atomic = (uint8_t)limits.max_qp_rd_atom;
	REQUIRE(end_move(&pair->a, &pair->b, 0, IBV_QPS_RTR) == 0, "RTR");
	pair->a.side->options.rd_atomic = (uint8_t)(limits.max_qp_init_rd_atom + 1);
	REQUIRE(end_move(&pair->a, &pair->b, 0, IBV_QPS_RTS) == EINVAL,
		"max_rd_atomic over the limit was accepted");
	expect_state(&pair->a, 0, IBV_QPS_RTR);
}

static void set_depths(struct end *end, uint8_t depth, int result)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD,
				    .max_rd_atomic = depth,
				    .max_dest_rd_atomic = depth };
	struct op_query before = { .qp = 0 }, after = { .qp = 0 };

	REQUIRE(end_modify(end, 0, attr, IBV_QP_STATE) == 0, "SQD");
	RUN(end, op_query, &before);
	REQUIRE(end_modify(end, 0, attr,
			   IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC) ==
			result,
		"depths %u in SQD: not %d", depth, result);
	RUN(end, op_query, &after);
	if (!result)
		before.attr.max_rd_atomic = before.attr.max_dest_rd_atomic = depth;
	REQUIRE(after.attr.max_rd_atomic == before.attr.max_rd_atomic &&
			after.attr.max_dest_rd_atomic == before.attr.max_dest_rd_atomic,
		"depths %u in SQD: %u and %u now", depth, after.attr.max_rd_atomic,
		after.attr.max_dest_rd_atomic);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(end_modify(end, 0, attr, IBV_QP_STATE) == 0, "RTS");
}

/* SQD may raise and lower them, and so may the next connection of the QP; RTS may not. */
static void rule_23_other_depths(struct pair *pair)
{
	static const uint8_t depths[] = { 16, 1, 7, 32, 3 };
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.rd_atomic = 2));
	for (unsigned i = 0; i < sizeof(depths); i++) {
		read_and_add(a, b, false);
		REQUIRE(end_modify(
				a, 0,
				(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .max_rd_atomic = 1 },
				IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC) == EINVAL,
			"RTS took max_rd_atomic");
		set_depths(b, depths[i], 0);
		set_depths(a, depths[i], 0);
		read_and_add(a, b, false);
		set_depths(a, 255, EINVAL);
		read_and_add(a, b, false);
		REQUIRE(end_move(a, b, 0, IBV_QPS_RESET) == 0, "RESET");
		REQUIRE(end_move(b, a, 0, IBV_QPS_RESET) == 0, "RESET");
		end_ready(a, b, 0);
		end_ready(b, a, 0);
	}
}

/* A fenced SEND sends the data of the READ before it. */
static void rule_23_fence_waits_for_read(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 8, 4096, 65536, 400000 };

	pair_connect(pair, WITH(.size = 2 << 20));
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t n = sizes[i];

		fill(a, 0, n, 0);
		fill(b, 0, n, i + 1);
		post_receive(b, 0, RECEIVE(.wr_id = 50, .offset = 1 << 20, .length = n));
		post_send(a, 0, READ(b, 0, .wr_id = 1, .flags = 0, .length = n));
		post_send(
			a, 0,
			SEND(.wr_id = 2, .length = n, .flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED));
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
		expect_bytes(b, 1 << 20, n, i + 1);

		poke(b, 0, 1234 + i);
		post_send(a, 0, FETCH_ADD(b, 0, .wr_id = 3, .compare_add = 1, .flags = 0));
		post_send(a, 0,
			  WRITE(b, 64, .wr_id = 4, .length = 8,
				.flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED));
		expect(a, SENDS, 4, IBV_WC_SUCCESS);
		REQUIRE(peek(b, 64) == 1234 + i, "the fenced WRITE sent old data");
	}
}

static void rule_27_read_after_write(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 1, 8, 100, 4096, 65536, 300000 };

	pair_connect(pair, WITH(.size = 2 << 20));
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t n = sizes[i % 6];
		struct request chain[] = {
			WRITE(b, TARGET, .wr_id = 1, .flags = 0, .length = n),
			READ(b, TARGET, .wr_id = 2, .offset = 1 << 20, .length = n),
		};
		int bad;

		fill(a, 0, n, i + 1);
		REQUIRE(post_chain(a, 0, chain, 2, &bad) == 0, "ibv_post_send");
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
		expect_bytes(a, 1 << 20, n, i + 1);
	}
}

static void rule_27_send_after_write(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static const uint32_t sizes[] = { 1, 8, 100, 4096, 65536, 300000 };

	pair_connect(pair, WITH(.size = 2 << 20));
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t n = sizes[i % 6];
		struct request chain[] = {
			WRITE(b, TARGET, .wr_id = 1, .flags = 0, .length = n),
			SEND(.wr_id = 2, .length = 8),
		};
		int bad;

		fill(a, 0, n, i + 1);
		post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
		REQUIRE(post_chain(a, 0, chain, 2, &bad) == 0, "ibv_post_send");
		expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
		expect_bytes(b, TARGET, n, i + 1);
		expect(a, SENDS, 2, IBV_WC_SUCCESS);
	}
}

/*
 * The target spins on the last byte, as programs do. Each round has one value in all bytes; the
 * watcher answers with it in the word at 0, which the writer reads by RDMA.
 */
struct op_rounds {
	uint32_t offset, length;
	int rounds;
	uint64_t remote;
	uint32_t rkey;
	int bad_round, bad_byte; /* -1: none */
};

static uint8_t value_of(int round)
{
	return (uint8_t)(round % 250 + 1);
}

static void op_watch_last_byte(struct side *side, void *argument)
{
	struct op_rounds *op = argument;
	volatile uint8_t *last = (uint8_t *)side->buf + op->offset + op->length - 1;
	const uint8_t *first = (uint8_t *)side->buf + op->offset;

	op->bad_round = op->bad_byte = -1;
	for (int round = 0; round < op->rounds; round++) {
		uint8_t value = value_of(round);
		uint64_t end_ms = now_ms() + WAIT_MS;

		for (unsigned spins = 1; *last != value; spins++) {
			REQUIRE(now_ms() < end_ms, "round %d of %u bytes never came", round,
				op->length);
			if (spins % 256 == 0)
				sched_yield(); /* to the writer, if it waits for a processor */
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* Backwards, to find bytes that the copy has not written yet. */
		for (uint32_t i = op->length; i-- > 0 && op->bad_byte < 0;) {
			if (first[i] == value)
				continue;
			op->bad_round = round;
			op->bad_byte = (int)i;
		}
		__atomic_store_n((uint64_t *)side->buf, (uint64_t)round + 1, __ATOMIC_RELEASE);
	}
}

static void complete_one(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	unsigned misses = 0;
	int result;

	REQUIRE(ibv_post_send(side->qp[0], wr, &bad) == 0, "ibv_post_send");
	do {
		result = ibv_poll_cq(side->cq[SENDS], 1, &wc);
		if (result == 0)
			after_miss(++misses);
	} while (result == 0);
	REQUIRE(result == 1 && wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void op_write_rounds(struct side *side, void *argument)
{
	struct op_rounds *op = argument;
	volatile uint64_t *seen = (volatile uint64_t *)(side->buf + 8);

	for (int round = 0; round < op->rounds; round++) {
		struct ibv_sge data = { (uintptr_t)side->buf + op->offset, op->length,
					side->mr->lkey };
		struct ibv_sge word = { (uintptr_t)seen, 8, side->mr->lkey };
		struct ibv_send_wr write = { .sg_list = &data,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = { op->remote + op->offset, op->rkey } };
		struct ibv_send_wr read = { .sg_list = &word,
					    .num_sge = 1,
					    .opcode = IBV_WR_RDMA_READ,
					    .send_flags = IBV_SEND_SIGNALED,
					    .wr.rdma = { op->remote, op->rkey } };

		memset(side->buf + op->offset, value_of(round), op->length);
		complete_one(side, &write);
		do {
			complete_one(side, &read);
		} while (*seen != (uint64_t)round + 1);
	}
}

static void rule_27_last_byte_is_last(struct pair *pair)
{
	static const uint32_t sizes[] = { 2,	3,    7,    8,	   9,	  15,	 16,
					  17,	31,   33,   63,	   64,	  65,	 127,
					  128,	129,  255,  257,   511,	  1000,	 4095,
					  4096, 4097, 8200, 16385, 65536, 70001, 262144 };

	uint64_t end_ms = now_ms() + 8000;

	pair_connect(pair, WITH(.size = 1 << 20));
	/* Both ends spin: on a busy machine the larger sizes get fewer rounds. */
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bool late = now_ms() > end_ms;

		/* Both alignments of the end; the offset keeps clear of the words at 0 and 8. */
		struct op_rounds op = { .offset = 4096 + (uint32_t)i % 8,
					.length = sizes[i],
					.rounds = late		     ? 3
						  : sizes[i] > 10000 ? 30
								     : 150,
					.remote = pair->b.addr,
					.rkey = pair->b.rkey };
		struct op_rounds theirs = op;

		fill(&pair->b, op.offset, op.length, 0);
		poke(&pair->b, op.offset + op.length - 1, 0);
		poke(&pair->b, 0, 0);
		START(&pair->b, op_watch_last_byte, &theirs);
		RUN(&pair->a, op_write_rounds, &op);
		end_finish(&pair->b);
		REQUIRE(theirs.bad_round < 0,
			"%u bytes, round %d: byte %d was written after the last", sizes[i],
			theirs.bad_round, theirs.bad_byte);
	}
}

/* The best of a few posts: another process may have taken the processor during one of them. */
static uint64_t quickest_post_us(struct pair *pair, struct request request, bool receive)
{
	uint64_t best_us = UINT64_MAX;

	for (uint64_t i = 0; i < 4; i++) {
		static struct op_post_send op;

		op.qp = 0;
		op.count = 1;
		op.request[0] = request;
		op.request[0].wr_id = i;
		end_run(&pair->a, op_post_send, &op,
			offsetof(struct op_post_send, request) + sizeof(request));
		REQUIRE(op.result == 0, "ibv_post_send: %s", strerror(op.result));
		if (op.elapsed_us < best_us)
			best_us = op.elapsed_us;
		if (receive)
			post_receive(&pair->b, 0, RECEIVE(.wr_id = 50, .length = 64 << 20));
		expect(&pair->a, SENDS, i, IBV_WC_SUCCESS);
		if (receive)
			expect(&pair->b, RECEIVES, 50, IBV_WC_SUCCESS);
	}
	return best_us;
}

/* Copying 64 MiB takes some 10 ms; posting them does not. */
static void rule_28_posting_returns_quickly(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	uint64_t limit_us = 3000 * (uint64_t)slowness(), took_us;

	pair_connect(pair, WITH(.size = 64 << 20));
	fill(a, 0, 64 << 20, 1);
	fill(b, 0, 64 << 20, 2);
	took_us = quickest_post_us(pair, SEND(.length = 64 << 20), true);
	REQUIRE(took_us < limit_us, "posting a SEND took %llu us", (unsigned long long)took_us);
	expect_bytes(b, 0, 64 << 20, 1);
	fill(b, 0, 64 << 20, 2);
	took_us = quickest_post_us(pair, WRITE(b, 0, .length = 64 << 20), false);
	REQUIRE(took_us < limit_us, "posting a WRITE took %llu us", (unsigned long long)took_us);
	expect_bytes(b, 0, 64 << 20, 1);
	fill(b, 0, 64 << 20, 3);
	took_us = quickest_post_us(pair, READ(b, 0, .length = 64 << 20), false);
	REQUIRE(took_us < limit_us, "posting a READ took %llu us", (unsigned long long)took_us);
	expect_bytes(a, 0, 64 << 20, 3);
}

/* A QP may be connected to itself. */
static void rule_27_connected_to_itself(struct pair *pair)
{
	struct end *a = &pair->a;

	pair_make(pair, WITH());
	end_ready(a, a, 0);
	fill(a, 0, 4096, 1);
	post_receive(a, 0, RECEIVE(.wr_id = 50, .offset = TARGET, .length = 4096));
	post_send(a, 0, SEND(.wr_id = 1, .length = 4096));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(a, TARGET, 4096, 1);
	post_send(a, 0, WRITE(a, 2 * TARGET, .wr_id = 2, .length = 4096));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	expect_bytes(a, 2 * TARGET, 4096, 1);
	post_send(a, 0, FETCH_ADD(a, 8, .wr_id = 3, .compare_add = 1));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
}

static const struct test tests[] = {
	EVERY(rule_13_sge_list_taken_at_post),
	PAIR(rule_13_receive_list_taken_at_post),
	PAIR(rule_13_inline_taken_at_post),
	PAIR(rule_20_zero_length_send),
	PAIR(rule_20_zero_length_write_and_read),
	PAIR(rule_20_zero_length_write_with_imm),
	EVERY(rule_22_all_sizes),
	PAIR(rule_22_opcodes_and_flags),
	PAIR(rule_22_write_with_imm_touches_no_buffer),
	PAIR(rule_23_more_reads_than_max_rd_atomic),
	HERE(rule_23_above_the_limit_is_refused),
	PAIR(rule_23_other_depths),
	PAIR(rule_23_fence_waits_for_read),
	PAIR(rule_27_read_after_write),
	PAIR(rule_27_send_after_write),
	PAIR_WITHIN(60, rule_27_last_byte_is_last),
	HERE(rule_27_connected_to_itself),
	PAIR_WITHIN(60, rule_28_posting_returns_quickly),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
