/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion statuses of RC: rules 16 to 21 of the contract. */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "expect.h"

#define TARGET 65536u /* where in the other end's buffer a request goes */
#define LENGTH 4096u
#define BUFFER (1u << 20)

/* A region with only what is wanted, over [TARGET, TARGET + LENGTH). */
static struct op_region region_with(struct end *end, int slot, int access)
{
	return add_region(
		end, (struct op_region){
			     .slot = slot, .offset = TARGET, .length = LENGTH, .access = access });
}

/* A failed alone: its QP reads ERR, the other end knows nothing. */
static void expect_only_a_failed(struct pair *pair, int qp)
{
	expect_state(&pair->a, qp, IBV_QPS_ERR);
	expect_state(&pair->b, qp, IBV_QPS_RTS);
	expect_none(&pair->b, RECEIVES);
	expect_no_async(&pair->b);
	expect_bytes(&pair->b, 0, BUFFER, 0);
}

static const enum ibv_wr_opcode sends_from_memory[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
							IBV_WR_RDMA_WRITE_WITH_IMM };
static const enum ibv_wr_opcode writes_to_memory[] = { IBV_WR_RDMA_READ,
						       IBV_WR_ATOMIC_FETCH_AND_ADD,
						       IBV_WR_ATOMIC_CMP_AND_SWP };

static uint32_t length_of(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 8
											    : 64;
}

/* Posts each opcode, on a QP of its own, from memory named by `addr` and `lkey`. */
static void expect_local_protection(struct pair *pair, uint64_t addr, uint32_t lkey,
				    const enum ibv_wr_opcode *opcode, int count, int first_qp)
{
	for (int i = 0; i < count; i++) {
		int qp = first_qp + i;

		post_receive(&pair->b, qp, RECEIVE(.wr_id = 50, .length = 4096));
		post_send(&pair->a, qp,
			  REQUEST(.wr_id = 7, .opcode = opcode[i], TO(&pair->b, TARGET),
				  .num_sge = 1, .sge = { { addr, length_of(opcode[i]), lkey } }));
		expect(&pair->a, SENDS, 7, IBV_WC_LOC_PROT_ERR);
		expect_only_a_failed(pair, qp);
	}
}

static void expect_local_protection_of_all(struct pair *pair, uint64_t addr, uint32_t lkey)
{
	expect_local_protection(pair, addr, lkey, sends_from_memory, 3, 0);
	expect_local_protection(pair, addr, lkey, writes_to_memory, 3, 3);
}

static void rule_16_unknown_lkey(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 6));
	fill(&pair->b, 0, BUFFER, 0);
	expect_local_protection_of_all(pair, pair->a.addr, pair->a.lkey ^ 0x5a5a00);
}

static void rule_16_deregistered_lkey(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 6));
	fill(&pair->b, 0, BUFFER, 0);
	region = region_with(&pair->a, 0, ACCESS_ALL);
	drop_region(&pair->a, 0);
	expect_local_protection_of_all(pair, pair->a.addr + TARGET, region.lkey);
}

static void rule_16_lkey_of_other_pd(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 6));
	fill(&pair->b, 0, BUFFER, 0);
	region = add_region(
		&pair->a,
		(struct op_region){ .other_pd = true, .length = LENGTH, .access = ACCESS_ALL });
	expect_local_protection_of_all(pair, pair->a.addr, region.lkey);
}

static void rule_16_local_range(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 6));
	fill(&pair->b, 0, BUFFER, 0);
	expect_local_protection_of_all(pair, pair->a.addr + BUFFER - 4, pair->a.lkey);
}

static void rule_16_local_range_before_start(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 6));
	fill(&pair->b, 0, BUFFER, 0);
	region = region_with(&pair->a, 0, ACCESS_ALL);
	expect_local_protection_of_all(pair, pair->a.addr + TARGET - 4, region.lkey);
}

/*
 * What a READ or an atomic brings needs LOCAL_WRITE; sending from read-only memory needs nothing.
 */
static void rule_16_local_rights(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 4));
	fill(&pair->b, 0, BUFFER, 0);
	region = region_with(&pair->a, 0, 0);
	fill(&pair->a, TARGET, LENGTH, 3);
	expect_local_protection(pair, pair->a.addr + TARGET, region.lkey, writes_to_memory, 3, 0);
	expect_bytes(&pair->a, TARGET, LENGTH, 3);

	post_send(&pair->a, 3,
		  WRITE(&pair->b, TARGET, .wr_id = 8, .num_sge = 1,
			.sge = { { pair->a.addr + TARGET, LENGTH, region.lkey } }));
	expect(&pair->a, SENDS, 8, IBV_WC_SUCCESS);
	expect_bytes(&pair->b, TARGET, LENGTH, 3);
}

/* A bad SGE behind good ones: adapters may have sent some of the message, but not all of it. */
static void rule_16_second_sge_bad(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 2));
	for (int qp = 0; qp < 2; qp++) {
		struct request request =
			SEND(.wr_id = 7, .num_sge = 2,
			     .sge = { { pair->a.addr, 16384, pair->a.lkey },
				      { pair->a.addr, 16384, pair->a.lkey ^ 0x5a5a00 } });

		if (qp == 1) {
			request.opcode = IBV_WR_RDMA_WRITE;
			request.remote = pair->b.addr + TARGET;
			request.rkey = pair->b.rkey;
		}
		post_receive(&pair->b, qp, RECEIVE(.wr_id = 50, .length = 65536));
		post_send(&pair->a, qp, request);
		expect(&pair->a, SENDS, 7, IBV_WC_LOC_PROT_ERR);
		expect_state(&pair->a, qp, IBV_QPS_ERR);
		expect_state(&pair->b, qp, IBV_QPS_RTS);
		expect_none(&pair->b, RECEIVES);
		expect_no_async(&pair->b);
	}
}

/* More than max_msg_sz (at most 2^31): adapters refuse the post or complete with LOC_LEN_ERR. */
static void rule_16_message_too_long(struct pair *pair)
{
	size_t length = (size_t)1 << 30;
	struct op_region region;
	struct request request;
	void *memory;
	int result;

	memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		skip_because("no room for 1 GiB of address space");
	pair_connect(pair, WITH(.size = BUFFER));
	region = (struct op_region){ .addr = (uintptr_t)memory,
				     .length = length,
				     .access = ACCESS_ALL };
	RUN(&pair->a, op_register, &region);
	if (region.error)
		skip_because("cannot register 1 GiB: %s", strerror(region.error));
	fill(&pair->b, 0, BUFFER, 0);
	request = WRITE(&pair->b, 0, .wr_id = 7, .num_sge = 3,
			.sge = { { region.addr, 1u << 30, region.lkey },
				 { region.addr, 1u << 30, region.lkey },
				 { region.addr, 1u << 30, region.lkey } });
	result = try_send(&pair->a, 0, request);
	if (result == 0)
		expect(&pair->a, SENDS, 7, IBV_WC_LOC_LEN_ERR);
	else
		REQUIRE(result == EINVAL, "ibv_post_send: %s", strerror(result));
	expect_bytes(&pair->b, 0, BUFFER, 0);
	expect_state(&pair->b, 0, IBV_QPS_RTS);
}

/*
 * An atomic takes one SGE of 8 bytes. The IBA calls a shorter one a length error; adapters also
 * answer LOC_QP_OP_ERR or refuse the post.
 */
static void rule_16_atomic_sge_too_short(struct pair *pair)
{
	struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };
	struct request request;

	pair_connect(pair, WITH());
	poke(&pair->b, TARGET, 5);
	request = FETCH_ADD(&pair->b, TARGET, .wr_id = 7, .compare_add = 1, .length = 4);
	if (try_send(&pair->a, 0, request) != 0) {
		expect_working(pair, 0);
		return;
	}
	RUN(&pair->a, op_poll, &op);
	REQUIRE(op.result == 1, "no completion");
	REQUIRE(op.wc.status == IBV_WC_LOC_LEN_ERR || op.wc.status == IBV_WC_LOC_QP_OP_ERR,
		"status %s", ibv_wc_status_str(op.wc.status));
	REQUIRE(peek(&pair->b, TARGET) == 5, "the atomic was executed");
}

/* Classes of requests. */
enum { W = 1, R = 2, A = 4 };

/*
 * Rule 36. Over a wire only the last packet tells of the immediate; here the first one is refused.
 */
static enum ibv_wc_status refused_immediate(uint32_t length)
{
	return over_wire() && length > 1024 ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_ACCESS_ERR;
}

/* Every request in `opcodes` is refused at [addr, addr + length): rule 17 in full. */
static void expect_remote_refusal(struct pair *pair, int opcodes, uint64_t addr, uint32_t rkey,
				  uint32_t length)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int class;
	} requests[] = {
		{ IBV_WR_RDMA_WRITE, W },	  { IBV_WR_RDMA_WRITE_WITH_IMM, W },
		{ IBV_WR_RDMA_READ, R },	  { IBV_WR_ATOMIC_FETCH_AND_ADD, A },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, A },
	};
	struct end *a = &pair->a, *b = &pair->b;

	for (int qp = 0; qp < 5; qp++) {
		enum ibv_wr_opcode opcode = requests[qp].opcode;
		bool atomic = requests[qp].class == A;

		if (!(opcodes & requests[qp].class))
			continue;
		fill(a, 0, BUFFER, requests[qp].class == W ? 9 : 0);
		fill(b, 0, BUFFER, 0);
		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 64));
		post_send(a, qp,
			  REQUEST(.wr_id = 7, .opcode = opcode, .remote = addr, .rkey = rkey,
				  .length = atomic ? 8 : length, .compare_add = 1));
		post_send(a, qp, REQUEST(.wr_id = 8, .opcode = IBV_WR_SEND, .flags = 0));
		expect(a, SENDS, 7, IBV_WC_REM_ACCESS_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
		expect_state(b, qp, IBV_QPS_ERR);
		expect(a, SENDS, 8, IBV_WC_WR_FLUSH_ERR);
		expect(b, RECEIVES, 50,
		       opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? refused_immediate(length)
							    : IBV_WC_WR_FLUSH_ERR);
		expect_async(b, qp, IBV_EVENT_QP_ACCESS_ERR);
		expect_no_async(a);
		expect_bytes(b, 0, BUFFER, 0);
		expect_bytes(a, 0, BUFFER, requests[qp].class == W ? 9 : 0);
	}
}

static void rule_17_unknown_rkey(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 5));
	expect_remote_refusal(pair, W | R | A, pair->b.addr, pair->b.rkey ^ 0x5a5a00, 64);
}

static void rule_17_rkey_off_by_one(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 5));
	expect_remote_refusal(pair, W | R | A, pair->b.addr, pair->b.rkey ^ 1, 64);
}

static void rule_17_deregistered_rkey(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 5));
	region = region_with(&pair->b, 0, ACCESS_ALL);
	drop_region(&pair->b, 0);
	expect_remote_refusal(pair, W | R | A, pair->b.addr + TARGET, region.rkey, 64);
}

static void rule_17_rkey_of_other_pd(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 5));
	region = add_region(&pair->b, (struct op_region){ .other_pd = true,
							  .offset = TARGET,
							  .length = LENGTH,
							  .access = ACCESS_ALL });
	expect_remote_refusal(pair, W | R | A, pair->b.addr + TARGET, region.rkey, 64);
}

/* The check is of the whole message: not even the part within the range is written. */
static void rule_17_range_beyond_end(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 5));
	region = region_with(&pair->b, 0, ACCESS_ALL);
	expect_remote_refusal(pair, W | R, pair->b.addr + TARGET, region.rkey, LENGTH + 1);
}

static void rule_17_range_far_beyond_end(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 5));
	region = region_with(&pair->b, 0, ACCESS_ALL);
	expect_remote_refusal(pair, W | R, pair->b.addr + TARGET + LENGTH - 4, region.rkey, 131072);
}

static void rule_17_range_before_start(struct pair *pair)
{
	struct op_region region;

	pair_connect(pair, WITH(.qps = 5));
	region = region_with(&pair->b, 0, ACCESS_ALL);
	expect_remote_refusal(pair, W | R | A, pair->b.addr + TARGET - 8, region.rkey, 64);
}

/* An end address that wraps around 2^64 lies outside. */
static void rule_17_range_wraps(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 5));
	expect_remote_refusal(pair, W | R | A, UINT64_MAX - 7, pair->b.rkey, 4096);
}

static void rule_17_region_lacks_right(struct pair *pair)
{
	static const struct {
		int access, refused;
	} rows[] = {
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, W },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, R },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, A },
	};

	/* The rows use different QPs of the same five. */
	pair_connect(pair, WITH(.qps = 5));
	for (int i = 0; i < 3; i++) {
		struct op_region region = region_with(&pair->b, i, rows[i].access);

		expect_remote_refusal(pair, rows[i].refused, pair->b.addr + TARGET, region.rkey,
				      64);
	}
}

static void rule_17_qp_lacks_right(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 5, .qp_access = 0));
	expect_remote_refusal(pair, W | R | A, pair->b.addr + TARGET, pair->b.rkey, 64);
}

static void rule_17_qp_right_withdrawn(struct pair *pair)
{
	pair_connect(pair, WITH(.qps = 5));
	for (int qp = 0; qp < 5; qp++) {
		struct ibv_qp_attr attr = { .qp_access_flags = 0 };

		post_send(&pair->a, qp, WRITE(&pair->b, 0, .wr_id = 1, .length = 64));
		expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
		REQUIRE(end_modify(&pair->b, qp, attr, IBV_QP_ACCESS_FLAGS) == 0,
			"access flags of a QP in RTS cannot be changed");
	}
	expect_remote_refusal(pair, W | R | A, pair->b.addr + TARGET, pair->b.rkey, 64);
}

/* Both ends fail; the receive completes with `theirs`; bytes around the buffer stay. */
static void expect_receive_failure(struct pair *pair, int qp, struct receive receive,
				   uint32_t length, enum ibv_wc_status ours,
				   enum ibv_wc_status theirs)
{
	receive.wr_id = 50;
	fill(&pair->b, 0, BUFFER, 0);
	post_receive(&pair->b, qp, receive);
	post_receive(&pair->b, qp, RECEIVE(.wr_id = 51, .offset = 4096, .length = 64));
	post_send(&pair->a, qp, SEND(.wr_id = 7, .length = length));
	post_send(&pair->a, qp, SEND(.wr_id = 8, .length = 8));
	expect(&pair->a, SENDS, 7, ours);
	expect_state(&pair->a, qp, IBV_QPS_ERR);
	expect(&pair->a, SENDS, 8, IBV_WC_WR_FLUSH_ERR);
	expect(&pair->b, RECEIVES, 50, theirs);
	expect_state(&pair->b, qp, IBV_QPS_ERR);
	expect(&pair->b, RECEIVES, 51, IBV_WC_WR_FLUSH_ERR);
	expect_none(&pair->b, RECEIVES);
}

static void rule_18_receive_too_short(struct pair *pair)
{
	static const struct {
		uint32_t receive, message;
	} rows[] = { { 64, 65 }, { 0, 1 }, { 4096, 65536 }, { 100, 200000 } };

	pair_connect(pair, WITH(.qps = 5));
	for (int i = 0; i < 4; i++) {
		expect_receive_failure(pair, i,
				       RECEIVE(.offset = TARGET, .length = rows[i].receive),
				       rows[i].message, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
		/* What fitted may have been written, nothing else. */
		expect_bytes(&pair->b, 0, TARGET, 0);
		expect_bytes(&pair->b, TARGET + rows[i].receive, LENGTH, 0);
	}
	expect_receive_failure(
		pair, 4,
		RECEIVE(.num_sge = 2, .sge = { { pair->b.addr + TARGET, 32, pair->b.lkey },
					       { pair->b.addr + TARGET + 64, 32, pair->b.lkey } }),
		65, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	expect_bytes(&pair->b, TARGET + 32, 32, 0);
	expect_bytes(&pair->b, TARGET + 96, LENGTH, 0);
}

static void rule_18_receive_key_bad(struct pair *pair)
{
	struct op_region read_only, other_pd, gone;
	struct end *b = &pair->b;
	struct ibv_sge rows[5];

	pair_connect(pair, WITH(.qps = 5));
	read_only = region_with(b, 0, 0);
	other_pd = add_region(b, (struct op_region){ .slot = 1,
						     .other_pd = true,
						     .offset = TARGET,
						     .length = LENGTH,
						     .access = ACCESS_ALL });
	gone = region_with(b, 2, ACCESS_ALL);
	drop_region(b, 2);
	rows[0] = (struct ibv_sge){ b->addr + TARGET, LENGTH, b->lkey ^ 0x5a5a00 };
	rows[1] = (struct ibv_sge){ b->addr + TARGET, LENGTH, read_only.lkey };
	rows[2] = (struct ibv_sge){ b->addr + TARGET, LENGTH, other_pd.lkey };
	rows[3] = (struct ibv_sge){ b->addr + TARGET, LENGTH, gone.lkey };
	rows[4] = (struct ibv_sge){ b->addr + BUFFER - 8, 64, b->lkey };
	for (int i = 0; i < 5; i++) {
		expect_receive_failure(pair, i, RECEIVE(.num_sge = 1, .sge = { rows[i] }), 64,
				       IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
		expect_bytes(b, 0, BUFFER, 0);
	}
}

static void rule_19_unaligned_atomic(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.qps = 4));
	fill(b, 0, BUFFER, 0);
	fill(a, 0, 64, 0);
	for (int qp = 0; qp < 4; qp++) {
		uint64_t at = TARGET + (qp < 2 ? 4 : 1);
		struct request request = qp % 2 ? CMP_SWP(b, at, .wr_id = 7)
						: FETCH_ADD(b, at, .wr_id = 7, .compare_add = 1);

		post_send(a, qp, request);
		expect(a, SENDS, 7, IBV_WC_REM_INV_REQ_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
		expect_state(b, qp, IBV_QPS_ERR);
		expect_bytes(b, 0, BUFFER, 0);
		expect_bytes(a, 0, 64, 0);
	}
}

static void rule_19_fetch_and_add(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_wc wc;

	pair_connect(pair, WITH());
	poke(b, TARGET - 8, 0x1111);
	poke(b, TARGET, UINT64_MAX - 1);
	poke(b, TARGET + 8, 0x2222);
	for (uint64_t i = 0; i < 4; i++) {
		post_send(a, 0, FETCH_ADD(b, TARGET, .wr_id = i, .compare_add = 3));
		wc = expect(a, SENDS, i, IBV_WC_SUCCESS);
		REQUIRE(wc.opcode == IBV_WC_FETCH_ADD, "opcode %d", wc.opcode);
		REQUIRE(wc.byte_len == 8, "byte_len %u", wc.byte_len);
		REQUIRE(peek(a, 0) == UINT64_MAX - 1 + 3 * i, "the value before is wrong");
		REQUIRE(peek(b, TARGET) == UINT64_MAX - 1 + 3 * (i + 1), "the sum is wrong");
	}
	REQUIRE(peek(b, TARGET - 8) == 0x1111 && peek(b, TARGET + 8) == 0x2222,
		"neighbouring words changed");
	expect_no_async(b);
}

static void rule_19_compare_and_swap(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_wc wc;

	pair_connect(pair, WITH());
	poke(b, TARGET, 0x0123456789abcdef);
	poke(a, 0, 1);
	post_send(a, 0,
		  CMP_SWP(b, TARGET, .wr_id = 1, .compare_add = 0x0123456789abcdef,
			  .swap = 0xfedcba9876543210));
	wc = expect(a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(wc.opcode == IBV_WC_COMP_SWAP, "opcode %d", wc.opcode);
	REQUIRE(peek(a, 0) == 0x0123456789abcdef, "the value before is wrong");
	REQUIRE(peek(b, TARGET) == 0xfedcba9876543210, "not swapped");

	/* A compare that fails is no error: the value before comes all the same. */
	post_send(a, 0, CMP_SWP(b, TARGET, .wr_id = 2, .compare_add = 5, .swap = 6));
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(peek(a, 0) == 0xfedcba9876543210, "the value before is wrong");
	REQUIRE(peek(b, TARGET) == 0xfedcba9876543210, "swapped although it differed");
	expect_state(a, 0, IBV_QPS_RTS);
}

/* An end's part in a test: so many fetch-and-adds, or swaps that count, one after the other. */
struct op_atomics {
	enum ibv_wr_opcode opcode;
	uint64_t remote;
	uint32_t rkey;
	int qp, count;
	uint64_t add;
	uint64_t retries;
};

static uint64_t atomic_at(struct side *side, struct op_atomics *op, uint64_t compare_add,
			  uint64_t swap)
{
	struct ibv_sge sge = { (uintptr_t)side->buf, 8, side->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op->opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.atomic = { op->remote, compare_add, swap, op->rkey } };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int result;

	REQUIRE(ibv_post_send(side->qp[op->qp], &wr, &bad) == 0, "ibv_post_send failed");
	do {
		result = ibv_poll_cq(side->cq[SENDS], 1, &wc);
	} while (result == 0);
	REQUIRE(result == 1 && wc.status == IBV_WC_SUCCESS, "atomic: %s",
		ibv_wc_status_str(wc.status));
	return *(volatile uint64_t *)side->buf;
}

static void op_atomics(struct side *side, void *argument)
{
	struct op_atomics *op = argument;

	for (int i = 0; i < op->count; i++) {
		uint64_t seen = 0, before;

		if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			atomic_at(side, op, op->add, 0);
			continue;
		}
		while ((before = atomic_at(side, op, seen, seen + op->add)) != seen) {
			seen = before;
			op->retries++;
		}
	}
}

/* Both ends count on the same word, which is b's: b reaches it through a loop back to itself. */
static void count_together(struct pair *pair, enum ibv_wr_opcode opcode, int count)
{
	struct op_atomics ours = { .opcode = opcode,
				   .remote = pair->b.addr + TARGET,
				   .rkey = pair->b.rkey,
				   .qp = 0,
				   .count = count,
				   .add = 1 };
	struct op_atomics theirs = ours;
	struct end loop_first = pair->b, loop_second = pair->b;

	loop_first.qpn[1] = pair->b.qpn[2];
	loop_second.qpn[2] = pair->b.qpn[1];
	end_ready(&pair->b, &pair->a, 0);
	end_ready(&pair->a, &pair->b, 0);
	end_ready(&pair->b, &loop_first, 1);
	end_ready(&pair->b, &loop_second, 2);
	theirs.qp = 1;
	theirs.add = UINT64_C(1) << 32;
	poke(&pair->b, TARGET, 0);
	START(&pair->b, op_atomics, &theirs);
	RUN(&pair->a, op_atomics, &ours);
	end_finish(&pair->b);
	REQUIRE(peek(&pair->b, TARGET) == (uint64_t)count + ((uint64_t)count << 32),
		"%llx after %d additions at each end", (unsigned long long)peek(&pair->b, TARGET),
		count);
}

static void rule_19_concurrent_additions(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 3));
	count_together(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 3000);
}

static void rule_19_concurrent_swaps(struct pair *pair)
{
	pair_make(pair, WITH(.qps = 3));
	count_together(pair, IBV_WR_ATOMIC_CMP_AND_SWP, 1000);
}

static const struct test tests[] = {
	PAIR(rule_16_unknown_lkey),
	PAIR(rule_16_deregistered_lkey),
	PAIR(rule_16_lkey_of_other_pd),
	PAIR(rule_16_local_range),
	PAIR(rule_16_local_range_before_start),
	PAIR(rule_16_local_rights),
	PAIR(rule_16_second_sge_bad),
	PAIR(rule_16_message_too_long),
	PAIR(rule_16_atomic_sge_too_short),
	PAIR(rule_17_unknown_rkey),
	PAIR(rule_17_rkey_off_by_one),
	PAIR(rule_17_deregistered_rkey),
	PAIR(rule_17_rkey_of_other_pd),
	PAIR(rule_17_range_beyond_end),
	PAIR(rule_17_range_far_beyond_end),
	PAIR(rule_17_range_before_start),
	PAIR(rule_17_range_wraps),
	PAIR(rule_17_region_lacks_right),
	PAIR(rule_17_qp_lacks_right),
	PAIR(rule_17_qp_right_withdrawn),
	PAIR(rule_18_receive_too_short),
	PAIR(rule_18_receive_key_bad),
	PAIR(rule_19_unaligned_atomic),
	EVERY(rule_19_fetch_and_add),
	EVERY(rule_19_compare_and_swap),
	PAIR(rule_19_concurrent_additions),
	PAIR(rule_19_concurrent_swaps),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
