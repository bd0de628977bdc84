/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: rules 9 and 26 of the contract. */
#include "expect.h"

#define BUFFER (1u << 20)

static void expect_delivery(struct pair *pair, int qp, uint64_t receive)
{
	post_send(&pair->a, qp, SEND(.wr_id = 1, .length = 64));
	expect(&pair->a, SENDS, 1, IBV_WC_SUCCESS);
	REQUIRE(expect(&pair->b, RECEIVES, receive, IBV_WC_SUCCESS).qp_num == pair->b.qpn[qp],
		"the completion names another QP");
}

static void rule_26_shared_by_qps(struct pair *pair)
{
	pair_connect(pair, WITH(.srq = true, .qps = 4));
	for (uint64_t i = 0; i < 40; i++)
		post_receive(&pair->b, -1, RECEIVE(.wr_id = i, .length = 64));
	for (uint64_t i = 0; i < 40; i++)
		expect_delivery(pair, (int)(i * 7 % 4), i);
	expect_no_async(&pair->b);
}

/* Receives are checked against the PD of the SRQ, not that of the QP. */
static void rule_26_pd_of_the_srq_counts(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_region region;

	pair_connect(pair, WITH(.srq = true, .srq_of_other_pd = true, .qps = 2));
	region = add_region(b, (struct op_region){ .other_pd = true,
						   .offset = 4096,
						   .length = 4096,
						   .access = ACCESS_ALL });
	fill(b, 0, BUFFER, 0);
	fill(a, 0, 64, 2);
	post_receive(
		b, -1,
		RECEIVE(.wr_id = 50, .num_sge = 1, .sge = { { b->addr + 4096, 64, region.lkey } }));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect_bytes(b, 4096, 64, 2);
	post_receive(b, -1, RECEIVE(.wr_id = 51, .offset = 8192, .length = 64));
	post_send(a, 0, SEND(.wr_id = 2, .length = 64));
	expect(a, SENDS, 2, IBV_WC_REM_OP_ERR);
	expect(b, RECEIVES, 51, IBV_WC_LOC_PROT_ERR);
	expect_bytes(b, 8192, 64, 0);
}

static void rule_26_qp_in_error_leaves_the_srq_alone(struct pair *pair)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	pair_connect(pair, WITH(.srq = true, .qps = 2));
	for (uint64_t i = 0; i < 8; i++)
		post_receive(&pair->b, -1, RECEIVE(.wr_id = i, .length = 64));
	expect_delivery(pair, 0, 0);
	REQUIRE(end_modify(&pair->b, 0, error, IBV_QP_STATE) == 0, "ERR");
	expect_async(&pair->b, 0, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_none(&pair->b, RECEIVES);
	for (uint64_t i = 1; i < 8; i++)
		expect_delivery(pair, 1, i);
	expect_none(&pair->b, RECEIVES);
}

/* The same when the QP fails by itself. */
static void rule_26_last_wqe_after_a_nak(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	int seen = 0;

	pair_connect(pair, WITH(.srq = true, .qps = 2));
	post_receive(b, -1, RECEIVE(.wr_id = 0, .length = 64));
	post_send(a, 0, WRITE(b, 0, .wr_id = 1, .length = 8, .rkey = b->rkey ^ 0x5500));
	expect(a, SENDS, 1, IBV_WC_REM_ACCESS_ERR);
	for (int i = 0; i < 2; i++) {
		struct op_async op = { .timeout_ms = WAIT_MS };

		RUN(b, op_async, &op);
		REQUIRE(op.qpn == b->qpn[0], "event of QP 0x%x", op.qpn);
		if (op.type == IBV_EVENT_QP_ACCESS_ERR)
			seen |= 1;
		if (op.type == IBV_EVENT_QP_LAST_WQE_REACHED)
			seen |= 2;
	}
	REQUIRE(seen == 3, "not both of QP_ACCESS_ERR and QP_LAST_WQE_REACHED came");
	expect_delivery(pair, 1, 0);
}

struct op_limit {
	struct ibv_srq_attr attr;
	int mask, result;
};

static void op_modify_srq(struct side *side, void *argument)
{
	struct op_limit *op = argument;

	op->result = ibv_modify_srq(side->srq, &op->attr, op->mask);
}

static void op_query_srq(struct side *side, void *argument)
{
	struct op_limit *op = argument;

	op->result = ibv_query_srq(side->srq, &op->attr);
}

static void set_limit(struct end *end, uint32_t limit)
{
	struct op_limit op = { .attr = { .srq_limit = limit }, .mask = IBV_SRQ_LIMIT };

	RUN(end, op_modify_srq, &op);
	REQUIRE(op.result == 0, "ibv_modify_srq: %s", strerror(op.result));
}

static uint32_t get_limit(struct end *end)
{
	struct op_limit op = { .result = -1 };

	RUN(end, op_query_srq, &op);
	REQUIRE(op.result == 0, "ibv_query_srq: %s", strerror(op.result));
	return op.attr.srq_limit;
}

/* At the limit there is no event, below it there is one, and only one until armed again. */
static void rule_09_limit_event_below_the_limit(struct pair *pair)
{
	struct end *b = &pair->b;
	struct op_async op = { .timeout_ms = WAIT_MS };

	pair_connect(pair, WITH(.srq = true));
	for (uint64_t i = 0; i < 8; i++)
		post_receive(b, -1, RECEIVE(.wr_id = i, .length = 64));
	set_limit(b, 5);
	REQUIRE(get_limit(b) == 5, "limit is %u", get_limit(b));
	for (uint64_t i = 0; i < 3; i++)
		expect_delivery(pair, 0, i);
	expect_no_async(b);
	expect_delivery(pair, 0, 3);
	RUN(b, op_async, &op);
	REQUIRE(op.type == IBV_EVENT_SRQ_LIMIT_REACHED && op.of_srq, "event %d", op.type);
	REQUIRE(get_limit(b) == 0, "still armed");
	expect_delivery(pair, 0, 4);
	expect_no_async(b);

	set_limit(b, 3);
	expect_no_async(b);
	expect_delivery(pair, 0, 5);
	RUN(b, op_async, &op);
	REQUIRE(op.type == IBV_EVENT_SRQ_LIMIT_REACHED, "event %d", op.type);
}

static void rule_09_limit_above_the_size(struct pair *pair)
{
	struct op_limit op = { .result = -1 };

	pair_connect(pair, WITH(.srq = true));
	RUN(&pair->b, op_query_srq, &op);
	op.attr.srq_limit = op.attr.max_wr + 1;
	op.mask = IBV_SRQ_LIMIT;
	RUN(&pair->b, op_modify_srq, &op);
	REQUIRE(op.result == EINVAL, "result %d", op.result);
	REQUIRE(get_limit(&pair->b) == 0, "a refused modify changed the limit");
}

/* IBV_SRQ_MAX_WR needs IBV_DEVICE_SRQ_RESIZE; without it, it is refused and changes nothing. */
static void rule_09_resize(struct pair *pair)
{
	struct op_limit op = { .attr = { .max_wr = 200 }, .mask = IBV_SRQ_MAX_WR };
	int result;

	pair_connect(pair, WITH(.srq = true));
	for (uint64_t i = 0; i < 8; i++)
		post_receive(&pair->b, -1, RECEIVE(.wr_id = i, .length = 64));
	RUN(&pair->b, op_modify_srq, &op);
	result = op.result;
	RUN(&pair->b, op_query_srq, &op);
	if (result == 0)
		REQUIRE(op.attr.max_wr >= 200, "max_wr is %u", op.attr.max_wr);
	else
		REQUIRE(result == EINVAL || result == EOPNOTSUPP || result == ENOSYS, "result %d",
			result);
	for (uint64_t i = 0; i < 8; i++)
		expect_delivery(pair, 0, i);
}

/* Below what is outstanding, or below the limit, it cannot shrink; above both it can. */
static void rule_09_resize_to_less(struct pair *pair)
{
	struct op_limit op = { .attr = { .max_wr = 7 }, .mask = IBV_SRQ_MAX_WR };

	pair_connect(pair, WITH(.srq = true));
	for (uint64_t i = 0; i < 8; i++)
		post_receive(&pair->b, -1, RECEIVE(.wr_id = i, .length = 64));
	RUN(&pair->b, op_modify_srq, &op);
	REQUIRE(op.result != 0, "fewer places than receives");
	set_limit(&pair->b, 20);
	op.attr.max_wr = 16;
	RUN(&pair->b, op_modify_srq, &op);
	REQUIRE(op.result != 0, "fewer places than the limit");
	REQUIRE(get_limit(&pair->b) == 20, "a refused modify changed the limit");
	set_limit(&pair->b, 0);
	op.attr.max_wr = 16;
	RUN(&pair->b, op_modify_srq, &op);
	if (op.result)
		skip_because("no resizing");
	for (uint64_t i = 0; i < 8; i++)
		expect_delivery(pair, 0, i);
}

static void rule_21_empty_srq_is_rnr(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.srq = true, .qps = 2, .rnr_retry = 7));
	post_send(a, 0, SEND(.wr_id = 1, .length = 64));
	post_send(a, 1, WRITE_IMM(b, 4096, .wr_id = 2, .length = 64));
	expect_none(a, SENDS);
	post_receive(b, -1, RECEIVE(.wr_id = 50, .length = 64));
	post_receive(b, -1, RECEIVE(.wr_id = 51, .length = 64));
	for (int i = 0; i < 2; i++) {
		struct op_poll op = { .which = SENDS, .timeout_ms = WAIT_MS };

		RUN(a, op_poll, &op);
		REQUIRE(op.result == 1 && op.wc.status == IBV_WC_SUCCESS, "%s",
			ibv_wc_status_str(op.wc.status));
	}
	expect(b, RECEIVES, 50, IBV_WC_SUCCESS);
	expect(b, RECEIVES, 51, IBV_WC_SUCCESS);
}

static void rule_26_uc(struct pair *pair)
{
	pair_connect(pair, WITH(.type = IBV_QPT_UC, .srq = true, .qps = 2));
	for (uint64_t i = 0; i < 10; i++)
		post_receive(&pair->b, -1, RECEIVE(.wr_id = i, .length = 256));
	for (uint64_t i = 0; i < 10; i++)
		expect_delivery(pair, i % 2, i);
}

static void rule_26_ud(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	pair_connect(pair, WITH(.type = IBV_QPT_UD, .srq = true, .qps = 2));
	for (uint64_t i = 0; i < 10; i++)
		post_receive(b, -1, RECEIVE(.wr_id = i, .length = 256));
	for (uint64_t i = 0; i < 10; i++) {
		struct request request = DATAGRAM(b, .wr_id = 1, .length = 8);

		request.qpn = b->qpn[i % 2];
		post_send(a, 0, request);
		expect(a, SENDS, 1, IBV_WC_SUCCESS);
		expect(b, RECEIVES, i, IBV_WC_SUCCESS);
	}
}

/* A QP with an SRQ has no receive queue of its own. */
static void rule_26_no_receive_on_the_qp(struct pair *pair)
{
	pair_connect(pair, WITH(.srq = true));
	REQUIRE(try_receive(&pair->b, 0, RECEIVE(.wr_id = 50, .length = 64)) != 0,
		"ibv_post_recv was accepted");
}

static const struct test tests[] = {
	EVERY(rule_26_shared_by_qps),
	PAIR(rule_26_pd_of_the_srq_counts),
	PAIR(rule_26_qp_in_error_leaves_the_srq_alone),
	PAIR(rule_26_last_wqe_after_a_nak),
	PAIR(rule_26_no_receive_on_the_qp),
	PAIR(rule_26_uc),
	PAIR(rule_26_ud),
	PAIR(rule_09_limit_event_below_the_limit),
	PAIR(rule_09_limit_above_the_size),
	PAIR(rule_09_resize),
	PAIR(rule_09_resize_to_less),
	PAIR(rule_21_empty_srq_is_rnr),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
