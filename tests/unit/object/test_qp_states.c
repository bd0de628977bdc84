/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/opcode.h"
#include "object/qp_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/*
 * Typed from ibv_modify_qp(3) and the tables of IBA 11.2.5.2, in the letters below; not from the
 * table under test. "-": no such transition. Before the colon: required; after it: optional.
 */
static const struct {
	char letter;
	int bit;
} letters[] = {
	{ 'c', IBV_QP_CUR_STATE },
	{ 'e', IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ 'a', IBV_QP_ACCESS_FLAGS },
	{ 'k', IBV_QP_PKEY_INDEX },
	{ 'p', IBV_QP_PORT },
	{ 'q', IBV_QP_QKEY },
	{ 'v', IBV_QP_AV },
	{ 'm', IBV_QP_PATH_MTU },
	{ 't', IBV_QP_TIMEOUT },
	{ 'r', IBV_QP_RETRY_CNT },
	{ 'n', IBV_QP_RNR_RETRY },
	{ 'R', IBV_QP_RQ_PSN },
	{ 'i', IBV_QP_MAX_QP_RD_ATOMIC },
	{ 'A', IBV_QP_ALT_PATH },
	{ 'T', IBV_QP_MIN_RNR_TIMER },
	{ 'S', IBV_QP_SQ_PSN },
	{ 'd', IBV_QP_MAX_DEST_RD_ATOMIC },
	{ 'M', IBV_QP_PATH_MIG_STATE },
	{ 'C', IBV_QP_CAP },
	{ 'D', IBV_QP_DEST_QPN },
	{ 'L', IBV_QP_RATE_LIMIT },
};

#define LETTERS (sizeof(letters) / sizeof(letters[0]))

static const struct row {
	enum ibv_qp_state from, to;
	const char *rc, *uc, *ud;
} rows[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_RESET, IBV_QPS_INIT, "kpa:", "kpa:", "kpq:" },
	{ IBV_QPS_INIT, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_INIT, IBV_QPS_ERR, ":", ":", ":" },
	{ IBV_QPS_INIT, IBV_QPS_INIT, ":kpa", ":kpa", ":kpq" },
	{ IBV_QPS_INIT, IBV_QPS_RTR, "vmDRdT:Aak", "vmDR:Aak", ":kq" },
	{ IBV_QPS_RTR, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_RTR, IBV_QPS_ERR, ":", ":", ":" },
	{ IBV_QPS_RTR, IBV_QPS_RTS, "Strni:cAaTM", "S:cAaM", "S:cq" },
	{ IBV_QPS_RTS, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_RTS, IBV_QPS_ERR, ":", ":", ":" },
	{ IBV_QPS_RTS, IBV_QPS_RTS, ":cAaTM", ":cAaM", ":cq" },
	{ IBV_QPS_RTS, IBV_QPS_SQD, ":e", ":e", ":e" },
	{ IBV_QPS_SQD, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_SQD, IBV_QPS_ERR, ":", ":", ":" },
	{ IBV_QPS_SQD, IBV_QPS_RTS, ":cAaTM", ":cAaM", ":cq" },
	{ IBV_QPS_SQD, IBV_QPS_SQD, ":pvtrnidAakTM", ":vAakM", ":kq" },
	{ IBV_QPS_SQE, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_SQE, IBV_QPS_ERR, ":", ":", ":" },
	{ IBV_QPS_SQE, IBV_QPS_RTS, ":", ":ca", ":cq" },
	{ IBV_QPS_ERR, IBV_QPS_RESET, ":", ":", ":" },
	{ IBV_QPS_ERR, IBV_QPS_ERR, ":", ":", ":" },
};

static const char *expected(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].from != from || rows[i].to != to)
			continue;
		return type == IBV_QPT_RC   ? rows[i].rc
		       : type == IBV_QPT_UC ? rows[i].uc
					    : rows[i].ud;
	}
	return "-";
}

static int bits(const char *from, const char *to)
{
	int mask = 0;

	for (; from < to; from++)
		for (size_t i = 0; i < LETTERS; i++)
			if (letters[i].letter == *from)
				mask |= letters[i].bit;
	return mask;
}

static void check_move(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type)
{
	const char *text = expected(from, to, type), *colon = strchr(text, ':');
	int required, optional, which = 0;

	if (!colon) {
		assert_int_equal(qp_move_check(from, to, type, IBV_QP_STATE, &which), MOVE_ILLEGAL);
		assert_int_equal(qp_move_check(from, to, type, 0x2ffffff, &which), MOVE_ILLEGAL);
		return;
	}
	required = bits(text, colon) | IBV_QP_STATE;
	optional = bits(colon, colon + strlen(colon));
	assert_int_equal(qp_move_check(from, to, type, required, &which), MOVE_OK);
	assert_int_equal(qp_move_check(from, to, type, required | optional, &which), MOVE_OK);
	for (size_t i = 0; i < LETTERS; i++) {
		int bit = letters[i].bit;

		if (required & bit) {
			assert_int_equal(qp_move_check(from, to, type, required & ~bit, &which),
					 MOVE_LACKS);
			assert_int_equal(which, bit);
		} else if (!(optional & bit)) {
			assert_int_equal(qp_move_check(from, to, type, required | bit, &which),
					 MOVE_EXCEEDS);
			assert_int_equal(which, bit);
		}
	}
}

static void test_every_move(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (int from = IBV_QPS_RESET; from <= IBV_QPS_UNKNOWN; from++)
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_UNKNOWN; to++)
			for (int type = 0; type < 3; type++)
				check_move((enum ibv_qp_state)from, (enum ibv_qp_state)to,
					   types[type]);
}

/* Each end of XRC ignores, in each move, what only the other needs. */
static void test_xrc(void **state)
{
	int target = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, all = ~0;
	int initiator = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

	assert_int_equal(qp_move_mask(IBV_QPT_XRC_SEND, all), all & ~target);
	assert_int_equal(qp_move_mask(IBV_QPT_XRC_RECV, all), all & ~initiator);
	assert_int_equal(qp_move_mask(IBV_QPT_RC, all), all);
	assert_int_equal(qp_move_mask(IBV_QPT_UD, all), all);
}

static void test_names(void **state)
{
	assert_string_equal(qp_state_name(IBV_QPS_SQD), "SQD");
	assert_string_equal(qp_state_name(IBV_QPS_UNKNOWN), "unknown");
}

/* As iwcm and librdmacm ask: RTS comes with a connection, SQD is its orderly end. */
static void test_rnic(void **state)
{
	static const struct {
		enum ibv_qp_state from, to;
		int mask;
		enum move_verdict verdict;
	} moves[] = {
		{ IBV_QPS_RESET, IBV_QPS_INIT, 0, MOVE_OK },
		{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS | IBV_QP_PORT, MOVE_OK },
		{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_QKEY, MOVE_EXCEEDS },
		{ IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_ACCESS_FLAGS | IBV_QP_PORT, MOVE_OK },
		{ IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_ACCESS_FLAGS | IBV_QP_PORT, MOVE_OK },
		{ IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV, MOVE_EXCEEDS },
		{ IBV_QPS_RTR, IBV_QPS_RTS, 0, MOVE_ILLEGAL },
		{ IBV_QPS_SQD, IBV_QPS_RTS, 0, MOVE_ILLEGAL },
		{ IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_PORT, MOVE_OK },
		{ IBV_QPS_RTS, IBV_QPS_SQD, 0, MOVE_OK },
		{ IBV_QPS_RTS, IBV_QPS_ERR, 0, MOVE_OK },
		{ IBV_QPS_INIT, IBV_QPS_SQD, 0, MOVE_ILLEGAL },
	};
	int which;

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		assert_int_equal(qp_move_check(moves[i].from, moves[i].to, OPCODE_QPT_RNIC,
					       moves[i].mask | IBV_QP_STATE, &which),
				 moves[i].verdict);
	/* for RTS rdma_init_qp_attr has the port alone, and no state */
	for (int i = IBV_QPS_RESET; i <= IBV_QPS_ERR; i++) {
		enum ibv_qp_state at = (enum ibv_qp_state)i;

		assert_int_equal(qp_move_check(at, at, OPCODE_QPT_RNIC, IBV_QP_PORT, &which),
				 MOVE_OK);
		assert_int_not_equal(qp_move_check(at, at, OPCODE_QPT_RNIC, IBV_QP_QKEY, &which),
				     MOVE_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_move),
		cmocka_unit_test(test_xrc),
		cmocka_unit_test(test_rnic),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
