/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting, signalling and flushing: rules 11, 12 and 14 of the contract. */
#include <stdlib.h>

#include "expect.h"

#define SIGNALLED IBV_SEND_SIGNALED

static void rule_11_receives_from_init_on(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	REQUIRE(end_move(b, a, 0, IBV_QPS_INIT) == 0, "INIT");
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTR) == 0, "RTR");
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 8));
	REQUIRE(end_move(b, a, 0, IBV_QPS_RTS) == 0, "RTS");
	post_receive(b, 0, RECEIVE(.wr_id = 52, .length = 8));
	end_ready(a, b, 0);
	for (uint64_t i = 0; i < 3; i++) {
		post_send(a, 0, SEND(.wr_id = i, .length = 8));
		expect(a, SENDS, i, IBV_WC_SUCCESS);
		expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
	}
}

/* Adapters refuse the post (EINVAL) or drop the request; none sends it when RTS comes. */
static void rule_11_sends_below_rts_are_not_kept(struct pair *pair)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
	struct end *a = &pair->a, *b = &pair->b;

	pair_make(pair, WITH());
	end_ready(b, a, 0);
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	fill(b, 0, 4096, 0);
	for (int i = 0; i < 3; i++) {
		if (i > 0)
			REQUIRE(end_move(a, b, 0, way[i]) == 0, "state %d", way[i]);
		try_send(a, 0, SEND(.wr_id = 1, .length = 8));
		try_send(a, 0, WRITE(b, 0, .wr_id = 2, .length = 8));
	}
	REQUIRE(end_move(a, b, 0, IBV_QPS_RTS) == 0, "RTS");
	expect_none(a, SENDS);
	expect_none(b, RECEIVES);
	expect_bytes(b, 0, 4096, 0);
	post_send(a, 0, SEND(.wr_id = 3, .length = 8));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
}

static uint32_t granted(struct end *end, bool receives)
{
	struct op_query op = { .qp = 0 };

	RUN(end, op_query, &op);
	return receives ? op.init.cap.max_recv_wr : op.init.cap.max_send_wr;
}

/* ENOMEM at the first that does not fit, which is bad_wr; those before it are sent. */
static void rule_12_send_chain_too_long(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	static struct request chain[REQUESTS_MAX];
	int fits, bad, result;

	pair_connect(pair, WITH(.cap = { .max_send_wr = 8,
					 .max_recv_wr = 120,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	fits = (int)granted(a, false);
	if (fits + 3 > REQUESTS_MAX)
		skip_because("%d send requests were granted for 8", fits);
	for (int i = 0; i < fits + 3; i++)
		chain[i] = SEND(.wr_id = (uint64_t)i, .length = 8);
	result = post_chain(a, 0, chain, fits + 3, &bad);
	REQUIRE(result == ENOMEM, "result %d, expected ENOMEM", result);
	REQUIRE(bad == fits, "bad_wr is request %d, expected %d", bad, fits);
	for (int i = 0; i < fits; i++)
		post_receive(b, 0, RECEIVE(.wr_id = 500 + (uint64_t)i, .length = 8));
	for (int i = 0; i < fits; i++) {
		expect(a, SENDS, (uint64_t)i, IBV_WC_SUCCESS);
		expect(b, RECEIVES, 500 + (uint64_t)i, IBV_WC_SUCCESS);
	}
	expect_none(b, RECEIVES);
	expect_none(a, SENDS);
	expect_working(pair, 0);
}

static void receive_chain_too_long(struct pair *pair, int qp, uint32_t fits)
{
	static struct op_post_recv op;

	if (fits + 3 > REQUESTS_MAX)
		skip_because("%u receive requests were granted for 8", fits);
	op.qp = qp;
	op.count = (int)fits + 3;
	for (int i = 0; i < op.count; i++)
		op.receive[i] = RECEIVE(.wr_id = 500 + (uint64_t)i, .length = 8);
	RUN(&pair->b, op_post_recv, &op);
	REQUIRE(op.result == ENOMEM, "result %d, expected ENOMEM", op.result);
	REQUIRE(op.bad == (int)fits, "bad_wr is request %d, expected %u", op.bad, fits);
	for (uint32_t i = 0; i < fits; i++) {
		post_send(&pair->a, 0, SEND(.wr_id = i, .length = 8));
		expect(&pair->a, SENDS, i, IBV_WC_SUCCESS);
		expect(&pair->b, RECEIVES, 500 + i, IBV_WC_SUCCESS);
	}
	expect_none(&pair->b, RECEIVES);
}

static void rule_12_receive_chain_too_long(struct pair *pair)
{
	pair_connect(pair, WITH(.cap = { .max_send_wr = 64,
					 .max_recv_wr = 8,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	receive_chain_too_long(pair, 0, granted(&pair->b, true));
}

static void op_srq_granted(struct side *side, void *argument)
{
	struct ibv_srq_attr attr;

	REQUIRE(ibv_query_srq(side->srq, &attr) == 0, "ibv_query_srq");
	*(uint32_t *)argument = attr.max_wr;
}

static void rule_12_srq_chain_too_long(struct pair *pair)
{
	uint32_t fits;

	pair_connect(pair, WITH(.srq = true, .cap = { .max_send_wr = 64,
						      .max_recv_wr = 8,
						      .max_send_sge = 1,
						      .max_recv_sge = 1 }));
	RUN(&pair->b, op_srq_granted, &fits);
	receive_chain_too_long(pair, -1, fits);
}

/*
 * A request in the middle of a chain is wrong. Either the post fails at that request (EINVAL, or
 * ENOMEM of old providers for too many SGEs), and those before it are sent; or it completes with
 * `status`.
 */
static void expect_refused_in_chain(struct pair *pair, int qp, struct request wrong,
				    enum ibv_wc_status status)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request chain[3] = { SEND(.wr_id = 1, .length = 8), wrong,
				    SEND(.wr_id = 3, .length = 8) };
	int bad, result;

	chain[1].wr_id = 2;
	post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 64));
	result = post_chain(a, qp, chain, 3, &bad);
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	if (result == 0) {
		expect(a, SENDS, 2, status);
		expect(a, SENDS, 3, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	REQUIRE(result == EINVAL || result == ENOMEM, "result %d", result);
	REQUIRE(bad == 1, "bad_wr is request %d, expected 1", bad);
	expect_none(a, SENDS);
	expect_none(b, RECEIVES);
	expect_working(pair, qp);
}

static void rule_12_too_many_sges(struct pair *pair)
{
	struct op_query op = { .qp = 0 };
	struct request request = SEND();

	pair_connect(pair, WITH(.cap = { .max_send_wr = 8,
					 .max_recv_wr = 8,
					 .max_send_sge = 2,
					 .max_recv_sge = 2 }));
	RUN(&pair->a, op_query, &op);
	request.num_sge = (int)op.init.cap.max_send_sge + 1;
	if (request.num_sge > SGES_MAX)
		skip_because("%u SGEs were granted for 2", op.init.cap.max_send_sge);
	for (int i = 0; i < request.num_sge; i++)
		request.sge[i] = (struct ibv_sge){ pair->a.addr, 8, pair->a.lkey };
	expect_refused_in_chain(pair, 0, request, IBV_WC_LOC_QP_OP_ERR);
}

static void rule_12_too_many_receive_sges(struct pair *pair)
{
	struct op_query op = { .qp = 0 };
	static struct op_post_recv post;

	pair_connect(pair, WITH(.cap = { .max_send_wr = 8,
					 .max_recv_wr = 8,
					 .max_send_sge = 2,
					 .max_recv_sge = 2 }));
	RUN(&pair->b, op_query, &op);
	if (op.init.cap.max_recv_sge + 1 > SGES_MAX)
		skip_because("%u SGEs were granted for 2", op.init.cap.max_recv_sge);
	post.count = 2;
	post.receive[0] = RECEIVE(.wr_id = 50, .length = 64);
	post.receive[1] = RECEIVE(.wr_id = 51, .num_sge = (int)op.init.cap.max_recv_sge + 1);
	RUN(&pair->b, op_post_recv, &post);
	REQUIRE(post.result == EINVAL || post.result == ENOMEM, "result %d", post.result);
	REQUIRE(post.bad == 1, "bad_wr is request %d, expected 1", post.bad);
	post_send(&pair->a, 0, SEND(.wr_id = 1, .length = 8));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	expect(&pair->b, RECEIVES, 50, IBV_WC_SUCCESS);
}

static void rule_12_inline_over_the_cap(struct pair *pair)
{
	struct op_query op = { .qp = 0 };

	pair_connect(pair, WITH());
	RUN(&pair->a, op_query, &op);
	expect_refused_in_chain(pair, 0,
				SEND(.flags = SIGNALLED | IBV_SEND_INLINE,
				     .length = op.init.cap.max_inline_data + 1),
				IBV_WC_LOC_QP_OP_ERR);
}

static void rule_12_opcode_of_other_service(struct pair *pair)
{
	struct end *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UC, .qps = 3));
	expect_refused_in_chain(pair, 0, READ(b, 0, .length = 8), IBV_WC_LOC_QP_OP_ERR);
	expect_refused_in_chain(pair, 1, FETCH_ADD(b, 0), IBV_WC_LOC_QP_OP_ERR);
	expect_refused_in_chain(pair, 2, CMP_SWP(b, 0), IBV_WC_LOC_QP_OP_ERR);
}

static void rule_12_unknown_opcode(struct pair *pair)
{
	pair_connect(pair, WITH());
	expect_refused_in_chain(pair, 0, REQUEST(.opcode = (enum ibv_wr_opcode)97, .length = 8),
				IBV_WC_LOC_QP_OP_ERR);
}

static void rule_12_ud_sends_only(struct pair *pair)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						      IBV_WR_ATOMIC_FETCH_AND_ADD };

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .qps = 3));
	for (int qp = 0; qp < 3; qp++) {
		struct request request = DATAGRAM(&pair->b, .wr_id = 1, .length = 8);

		request.opcode = opcodes[qp];
		if (try_send(&pair->a, qp, request) == 0)
			expect(&pair->a, SENDS, 1, IBV_WC_LOC_QP_OP_ERR);
		else
			expect_none(&pair->a, SENDS);
	}
}

/* An empty chain is no error. */
static void rule_12_empty_chain(struct pair *pair)
{
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_recv;

	pair_connect(pair, WITH());
	REQUIRE(ibv_post_send(pair->a.side->qp[0], NULL, &bad) == 0, "ibv_post_send");
	REQUIRE(ibv_post_recv(pair->a.side->qp[0], NULL, &bad_recv) == 0, "ibv_post_recv");
}

static void rule_14_unsignalled_is_silent(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	for (uint64_t i = 0; i < 8; i++)
		post_receive(b, 0, RECEIVE(.wr_id = 50 + i, .length = 8));
	for (uint64_t i = 0; i < 8; i++)
		post_send(a, 0, SEND(.wr_id = i, .length = 8, .flags = i % 4 == 3 ? SIGNALLED : 0));
	expect(a, SENDS, 3, IBV_WC_SUCCESS);
	expect(a, SENDS, 7, IBV_WC_SUCCESS);
	expect_none(a, SENDS);
	for (uint64_t i = 0; i < 8; i++)
		expect(b, RECEIVES, 50 + i, IBV_WC_SUCCESS);
}

static void rule_14_sq_sig_all(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.sig_all = true));
	for (uint64_t i = 0; i < 8; i++)
		post_send(a, 0, WRITE(b, 0, .wr_id = i, .length = 8, .flags = 0));
	for (uint64_t i = 0; i < 8; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	expect_none(a, SENDS);
}

static void rule_14_failed_unsignalled_completes(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct request request;

	pair_connect(pair, WITH(.qps = 2));
	request = WRITE(b, 0, .wr_id = 2, .length = 8, .flags = 0, .rkey = b->rkey ^ 0x5500);
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 8, .flags = 0));
	post_send(a, 0, request);
	post_send(a, 0, WRITE(b, 0, .wr_id = 3, .length = 8, .flags = 0));
	expect(a, SENDS, 2, IBV_WC_REM_ACCESS_ERR);
	expect(a, SENDS, 3, IBV_WC_WR_FLUSH_ERR);
	post_send(a, 1,
		  SEND(.wr_id = 4, .flags = 0, .num_sge = 1,
		       .sge = { { a->addr, 8, a->lkey ^ 0x5500 } }));
	expect(a, SENDS, 4, IBV_WC_LOC_PROT_ERR);
	expect_none(a, SENDS);
}

/* Slots of unsignalled requests are the program's again when a later one's completion is polled. */
static void rule_14_slots_of_unsignalled_are_reused(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	uint32_t slots;

	pair_connect(pair, WITH(.cap = { .max_send_wr = 16,
					 .max_recv_wr = 8,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	slots = granted(a, false);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < slots; i++)
			post_send(a, 0,
				  WRITE(b, 0, .wr_id = round, .length = 8,
					.flags = i + 1 == slots ? SIGNALLED : 0));
		expect(a, SENDS, round, IBV_WC_SUCCESS);
		expect_none(a, SENDS);
	}
}

/* Without a signalled one nothing frees a slot: the queue is full, as on adapters. */
static void rule_14_only_unsignalled_fills_the_queue(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	uint32_t slots;
	int result;

	pair_connect(pair, WITH(.cap = { .max_send_wr = 16,
					 .max_recv_wr = 8,
					 .max_send_sge = 1,
					 .max_recv_sge = 1 }));
	slots = granted(a, false);
	for (uint32_t i = 0; i < slots; i++)
		post_send(a, 0, WRITE(b, 0, .length = 8, .flags = 0));
	expect_none(a, SENDS);
	result = try_send(a, 0, WRITE(b, 0, .length = 8));
	REQUIRE(result == ENOMEM, "result %d, expected ENOMEM", result);
}

/* Each once, in order: waiting requests, unsignalled ones, and those posted afterwards. */
static void rule_14_flush_in_order(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	pair_connect(pair, WITH(.rnr_retry = 7, .cqe = 300));
	for (uint64_t i = 0; i < 20; i++) {
		struct request request = SEND(.wr_id = i, .length = (uint32_t)i * 1000);

		if (i % 3 == 0)
			request.flags = 0;
		if (i > 0 && i % 4 == 1)
			request = WRITE(b, 0, .wr_id = i, .length = 8);
		if (i > 0 && i % 4 == 2)
			request = READ(b, 0, .wr_id = i, .length = 8);
		post_send(a, 0, request);
		post_receive(a, 0, RECEIVE(.wr_id = 100 + i, .length = 64));
	}
	expect_none(a, SENDS);
	REQUIRE(end_modify(a, 0, error, IBV_QP_STATE) == 0, "ERR");
	for (uint64_t i = 0; i < 20; i++) {
		struct ibv_wc wc = expect(a, SENDS, i, IBV_WC_WR_FLUSH_ERR);

		REQUIRE(wc.qp_num == a->qpn[0], "qp_num");
		wc = expect(a, RECEIVES, 100 + i, IBV_WC_WR_FLUSH_ERR);
		REQUIRE(wc.qp_num == a->qpn[0], "qp_num");
	}
	expect_none(a, SENDS);
	expect_none(a, RECEIVES);
	for (uint64_t i = 0; i < 5; i++) {
		post_send(a, 0, SEND(.wr_id = 200 + i, .length = 8, .flags = 0));
		post_receive(a, 0, RECEIVE(.wr_id = 300 + i, .length = 64));
	}
	for (uint64_t i = 0; i < 5; i++) {
		expect(a, SENDS, 200 + i, IBV_WC_WR_FLUSH_ERR);
		expect(a, RECEIVES, 300 + i, IBV_WC_WR_FLUSH_ERR);
	}
	expect_none(a, SENDS);
	expect_none(a, RECEIVES);
}

/* Finished work that was not polled yet keeps its good status when the QP fails after it. */
static void rule_14_finished_work_is_not_flushed(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	pair_connect(pair, WITH());
	post_receive(b, 0, RECEIVE(.wr_id = 50, .length = 8));
	post_receive(b, 0, RECEIVE(.wr_id = 51, .length = 8));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8));
	post_send(a, 0, SEND(.wr_id = 2, .length = 8));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(a, SENDS, 2, IBV_WC_SUCCESS);
	post_receive(b, 0, RECEIVE(.wr_id = 52, .length = 8));
	REQUIRE(end_modify(b, 0, error, IBV_QP_STATE) == 0, "ERR");
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 52, IBV_WC_WR_FLUSH_ERR);
}

/* Acknowledged requests complete with success, even if this end has not polled since. */
static void rule_14_acknowledged_work_is_not_flushed(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	if (over_wire())
		return; /* the acknowledgement may be on its way */
	pair_connect(pair, WITH(.qps = QPS_MAX));
	for (int qp = 0; qp < QPS_MAX; qp++) {
		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 8));
		post_send(a, qp, SEND(.wr_id = 1, .length = 8));
		expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
		REQUIRE(end_modify(a, qp, error, IBV_QP_STATE) == 0, "ERR");
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
	}
}

/* A completion with error names its request, and a cause. */
static void rule_14_error_completion_is_complete(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_wc wc;

	pair_connect(pair, WITH());
	post_send(a, 0,
		  WRITE(b, 0, .wr_id = 0xfedcba9876543210, .length = 8, .rkey = b->rkey ^ 0x5500));
	wc = expect(a, SENDS, 0xfedcba9876543210, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(wc.qp_num == a->qpn[0], "qp_num 0x%x", wc.qp_num);
	REQUIRE(wc.vendor_err != 0, "vendor_err tells nothing");
}

/* Both directions at once, deep queues, nothing lost. */
static void rule_14_many_both_ways(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH());
	for (int round = 0; round < 10; round++) {
		for (uint64_t i = 0; i < 60; i++) {
			post_receive(a, 0, RECEIVE(.wr_id = i, .length = 4096));
			post_receive(b, 0, RECEIVE(.wr_id = i, .length = 4096));
		}
		for (uint64_t i = 0; i < 60; i++) {
			post_send(a, 0, SEND(.wr_id = i, .length = 4096));
			post_send(b, 0, SEND(.wr_id = i, .length = 4096));
		}
		for (uint64_t i = 0; i < 60; i++) {
			expect(a, SENDS, i, IBV_WC_SUCCESS);
			expect(b, SENDS, i, IBV_WC_SUCCESS);
			expect(a, RECEIVES, i, IBV_WC_SUCCESS);
			expect(b, RECEIVES, i, IBV_WC_SUCCESS);
		}
	}
}

/*
 * A request that fails at this end waits for its turn. The NAK of the one before it comes
 * meanwhile: it counts as if nothing had failed.
 */
static void rule_14_nak_before_a_local_failure(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	int bad;

	pair_connect(pair, WITH(.rnr_retry = 7, .qps = 2));
	fill(a, 0, 8, 1);
	fill(b, 0, 8, 0);
	for (int qp = 0; qp < 2; qp++) {
		struct request chain[] = {
			SEND(.wr_id = 1, .length = 8), /* no receive there */
			SEND(.wr_id = 2, .num_sge = 1, .sge = { { a->addr, 8, a->lkey ^ 0x5500 } }),
			SEND(.wr_id = 3, .length = 8),
		};

		if (qp == 1)
			chain[0] = WRITE(b, 64, .wr_id = 1, .length = 8, .rkey = b->rkey ^ 0x5500);
		REQUIRE(post_chain(a, qp, chain, 3, &bad) == 0, "ibv_post_send");
		if (qp == 0) {
			expect_none(a, SENDS);
			post_receive(b, qp, RECEIVE(.wr_id = 50, .length = 8));
			expect(a, SENDS, 1, IBV_WC_SUCCESS);
			expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
			expect_bytes(b, 0, 8, 1);
			expect(a, SENDS, 2, IBV_WC_LOC_PROT_ERR);
		} else {
			expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
			expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
		}
		expect(a, SENDS, 3, IBV_WC_WR_FLUSH_ERR);
		expect_none(a, SENDS);
		expect_state(a, qp, IBV_QPS_ERR);
	}
}

static const struct test tests[] = {
	PAIR(rule_11_receives_from_init_on),
	PAIR(rule_11_sends_below_rts_are_not_kept),
	PAIR(rule_12_send_chain_too_long),
	PAIR(rule_12_receive_chain_too_long),
	PAIR(rule_12_srq_chain_too_long),
	PAIR(rule_12_too_many_sges),
	PAIR(rule_12_too_many_receive_sges),
	PAIR(rule_12_inline_over_the_cap),
	PAIR(rule_12_opcode_of_other_service),
	PAIR(rule_12_unknown_opcode),
	PAIR(rule_12_ud_sends_only),
	HERE(rule_12_empty_chain),
	PAIR(rule_14_unsignalled_is_silent),
	PAIR(rule_14_sq_sig_all),
	PAIR(rule_14_failed_unsignalled_completes),
	PAIR(rule_14_slots_of_unsignalled_are_reused),
	PAIR(rule_14_only_unsignalled_fills_the_queue),
	EVERY(rule_14_flush_in_order),
	PAIR(rule_14_finished_work_is_not_flushed),
	PAIR(rule_14_acknowledged_work_is_not_flushed),
	PAIR(rule_14_error_completion_is_complete),
	PAIR(rule_14_many_both_ways),
	PAIR(rule_14_nak_before_a_local_failure),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
