/* SPDX-License-Identifier: BSD-2-Clause */
/* Success means delivered: destinations of another service, and such as do not exist: rule 35. */
#include "expect.h"

#define LENGTH 4096u

/* Half a minute: an earlier failure is not a time-out. */
#define LONG .timeout = over_wire() ? 12 : 20, .retry_cnt = over_wire() ? 2 : 7
/* The other end of a program that ends has time to see what came before. */
#define NOT_BEFORE_MS (over_wire() ? 0u : 40u)
#define AT_ONCE_MS    ((unsigned int)((over_wire() ? 3000 : 1000) * patience()))

static const enum ibv_wr_opcode of_rc[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					    IBV_WR_ATOMIC_FETCH_AND_ADD,
					    IBV_WR_RDMA_WRITE_WITH_IMM };
#define OF_RC ((int)(sizeof(of_rc) / sizeof(of_rc[0])))

struct op_replace {
	struct options options; /* of the QPs made in place of all there are */
	uint32_t qpn[QPS_MAX];
};

/* Runs at an end: QPs of another service, in RESET, with CQs and buffer as they were. */
static void op_replace(struct side *side, void *argument)
{
	struct op_replace *op = argument;

	for (int i = 0; i < side->options.qps; i++) {
		REQUIRE(ibv_destroy_qp(side->qp[i]) == 0, "ibv_destroy_qp");
		side->qp[i] = side_create_qp(side, &op->options);
		op->qpn[i] = side->qp[i]->qp_num;
	}
	side->options.type = op->options.type;
	if (side->options.type != IBV_QPT_UD)
		return;
	for (int i = 0; i < side->options.qps; i++) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

		REQUIRE(ibv_modify_qp(side->qp[i], &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_QKEY) == 0,
			"UD to INIT");
		attr.qp_state = IBV_QPS_RTR;
		REQUIRE(ibv_modify_qp(side->qp[i], &attr, IBV_QP_STATE) == 0, "UD to RTR");
	}
}

/* Both ends as QPs of `type` to `other_type`, connected to each other as far as they can be. */
static void connect_services(struct pair *pair, enum ibv_qp_type type, enum ibv_qp_type other_type)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_replace op = { .options = *WITH(.type = other_type, .qps = OF_RC) };

	pair_make(pair, WITH(LONG, .type = type, .qps = OF_RC));
	RUN(b, op_replace, &op);
	memcpy(b->qpn, op.qpn, sizeof(op.qpn));
	for (int qp = 0; qp < OF_RC; qp++) {
		end_ready(a, b, qp);
		if (other_type != IBV_QPT_UD)
			end_ready(b, a, qp);
		post_receive(b, qp, RECEIVE(.wr_id = 50, .length = LENGTH));
	}
	fill(b, 0, 2 * LENGTH, 0);
}

/* Each request of RC fails at once, and flushes later ones. */
static void expect_failure_at_once(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	for (int qp = 0; qp < OF_RC; qp++) {
		uint64_t start_ms = now_ms(), took_ms;

		post_send(a, qp, REQUEST(.wr_id = 1, .opcode = of_rc[qp], TO(b, 0), .length = 8));
		post_send(a, qp, SEND(.wr_id = 2, .length = 8));
		expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
		took_ms = now_ms() - start_ms;
		expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
		expect_state(a, qp, IBV_QPS_ERR);
		REQUIRE(took_ms < AT_ONCE_MS && took_ms >= NOT_BEFORE_MS, "opcode %d took %llu ms",
			of_rc[qp], (unsigned long long)took_ms);
	}
	expect_no_async(a);
}

static void expect_untouched(struct pair *pair)
{
	expect_none(&pair->b, RECEIVES);
	expect_bytes(&pair->b, 0, 2 * LENGTH, 0);
	expect_no_async(&pair->b);
}

static void rule_35_rc_to_ud(struct pair *pair)
{
	connect_services(pair, IBV_QPT_RC, IBV_QPT_UD);
	expect_failure_at_once(pair);
	expect_untouched(pair);
}

static void rule_35_rc_to_uc(struct pair *pair)
{
	connect_services(pair, IBV_QPT_RC, IBV_QPT_UC);
	expect_failure_at_once(pair);
	expect_untouched(pair);
	for (int qp = 0; qp < OF_RC; qp++)
		expect_state(&pair->b, qp, IBV_QPS_RTS);
}

/* The UC QP would not answer even if it were ready. */
static void rule_35_rc_to_uc_in_reset(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct op_replace op = { .options = *WITH(.type = IBV_QPT_UC, .qps = OF_RC) };

	pair_make(pair, WITH(LONG, .qps = OF_RC));
	RUN(b, op_replace, &op);
	memcpy(b->qpn, op.qpn, sizeof(op.qpn));
	for (int qp = 0; qp < OF_RC; qp++)
		end_ready(a, b, qp);
	fill(b, 0, 2 * LENGTH, 0);
	expect_failure_at_once(pair);
	expect_untouched(pair);
}

/* Nobody answers, so the sender succeeds; nothing is delivered. */
static void rule_35_uc_to_rc(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	connect_services(pair, IBV_QPT_UC, IBV_QPT_RC);
	post_send(a, 0, SEND(.wr_id = 1, .length = LENGTH));
	post_send(a, 1, WRITE(b, 0, .wr_id = 2, .length = LENGTH));
	post_send(a, 2, WRITE_IMM(b, 0, .wr_id = 3, .length = LENGTH));
	for (uint64_t i = 1; i <= 3; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	expect_untouched(pair);
	for (int qp = 0; qp < 3; qp++)
		expect_state(b, qp, IBV_QPS_RTS);
}

static void rule_35_uc_to_ud(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;

	connect_services(pair, IBV_QPT_UC, IBV_QPT_UD);
	post_send(a, 0, SEND(.wr_id = 1, .length = 64));
	post_send(a, 1, WRITE(b, 0, .wr_id = 2, .length = 64));
	for (uint64_t i = 1; i <= 2; i++)
		expect(a, SENDS, i, IBV_WC_SUCCESS);
	expect_untouched(pair);
}

static void rule_35_destroyed_by_who_lives(struct pair *pair)
{
	struct end *b = &pair->b;

	pair_connect(pair, WITH(LONG, .qps = OF_RC));
	fill(b, 0, 2 * LENGTH, 0);
	for (int qp = 0; qp < OF_RC; qp++) {
		struct op_destroy_qp op = { .qp = qp };

		RUN(b, op_destroy_qp, &op);
		REQUIRE(op.result == 0, "ibv_destroy_qp: %s", strerror(op.result));
	}
	expect_failure_at_once(pair);
	expect_untouched(pair);
}

/* It is destroyed while a request waits for it: for a receive, for the rest of a message. */
static void rule_35_destroyed_meanwhile(struct pair *pair)
{
	struct op_destroy_qp op = { .qp = 0 };
	struct end *a = &pair->a, *b = &pair->b;
	uint64_t start_ms;

	pair_connect(pair, WITH(LONG, .rnr_retry = 7));
	post_send(a, 0, SEND(.wr_id = 1, .length = 8)); /* there is no receive */
	post_send(a, 0, READ(b, 0, .wr_id = 2, .length = 8));
	expect_none(a, SENDS);
	RUN(b, op_destroy_qp, &op);
	REQUIRE(op.result == 0, "ibv_destroy_qp: %s", strerror(op.result));
	start_ms = now_ms();
	expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
	expect(a, SENDS, 2, IBV_WC_WR_FLUSH_ERR);
	REQUIRE(now_ms() - start_ms < AT_ONCE_MS, "took %llu ms",
		(unsigned long long)(now_ms() - start_ms));
}

/* A number of the living process that no QP has. */
static void rule_35_never_existed(struct pair *pair)
{
	struct end nobody;

	pair_make(pair, WITH(LONG, .qps = OF_RC));
	nobody = pair->b;
	for (int qp = 0; qp < OF_RC; qp++) {
		nobody.qpn[qp] = pair->b.qpn[qp] ^ 0x2000;
		end_ready(&pair->a, &nobody, qp);
	}
	fill(&pair->b, 0, 2 * LENGTH, 0);
	expect_failure_at_once(pair);
	expect_untouched(pair);
}

/* The requester retries to a QP that may become ready, until its time-outs are over. */
static void rule_35_not_ready_is_waited_for(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	uint64_t start_ms = now_ms();

	pair_make(pair, WITH(.timeout = 14, .retry_cnt = 4, .qps = 2));
	for (int qp = 0; qp < 2; qp++)
		end_ready(a, b, qp);
	REQUIRE(end_move(b, a, 1, IBV_QPS_INIT) == 0, "INIT");
	for (int qp = 0; qp < 2; qp++) {
		post_send(a, qp, SEND(.wr_id = 1, .length = 8));
		expect(a, SENDS, 1, IBV_WC_RETRY_EXC_ERR);
		REQUIRE(now_ms() - start_ms >= 4 * 67, "given up after %llu ms",
			(unsigned long long)(now_ms() - start_ms));
		start_ms = now_ms();
	}
}

static const struct test tests[] = {
	PAIR(rule_35_rc_to_ud),
	PAIR(rule_35_rc_to_uc),
	PAIR(rule_35_rc_to_uc_in_reset),
	PAIR(rule_35_uc_to_rc),
	PAIR(rule_35_uc_to_ud),
	PAIR(rule_35_destroyed_by_who_lives),
	PAIR(rule_35_destroyed_meanwhile),
	PAIR(rule_35_never_existed),
	PAIR(rule_35_not_ready_is_waited_for),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
