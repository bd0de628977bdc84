/* SPDX-License-Identifier: BSD-2-Clause */
/* The builders, ibv_wr_*. */
#include "world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/compat.h"
#include "object/ah.h"
#include "object/opcode.h"
#include "verbs/qp_ex.h"

static struct ibv_qp_ex *ready(struct world *world, enum ibv_qp_type type)
{
	struct qp *qp = world_qp(world, type);

	qp_ex_init(qp, opcode_send_ops(qp->type));
	world_to(qp, IBV_QPS_RTS);
	return &qp->ex;
}

static struct qp *qp_under(struct ibv_qp_ex *ex)
{
	return (struct qp *)ex;
}

static struct wqe *posted(struct ibv_qp_ex *ex, uint32_t number)
{
	return sq_wqe(&qp_under(ex)->sq, qp_under(ex)->sq.head + number);
}

static void expect_posted(struct ibv_qp_ex *ex, uint32_t count)
{
	assert_int_equal(qp_under(ex)->sq.tail - qp_under(ex)->sq.head, count);
}

static void test_fields(void **state)
{
	struct ibv_qp_ex *ex = ready(*state, IBV_QPT_RC);
	struct ibv_sge list[2] = { { .addr = 1, .length = 2, .lkey = 3 },
				   { .addr = 4, .length = 5 } };
	struct ibv_data_buf bufs[2] = { { "abc", 3 }, { "de", 2 } };
	int issues = path_issues;

	ibv_wr_start(ex);
	ex->wr_id = 7;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write_imm(ex, 11, 22, 33);
	ibv_wr_set_sge_list(ex, 2, list);
	ex->wr_id = 8;
	ex->wr_flags = 0;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ibv_wr_atomic_cmp_swp(ex, 1, 16, 2, 3);
	ibv_wr_set_sge(ex, 9, 100, 8);
	ibv_wr_send_inv(ex, 55);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(path_issues, issues + 1);
	expect_posted(ex, 4);
	assert_int_equal(posted(ex, 0)->wr_id, 7);
	assert_int_equal(posted(ex, 0)->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(posted(ex, 0)->flags, IBV_SEND_SIGNALED);
	assert_int_equal(posted(ex, 0)->rkey, 11);
	assert_int_equal(posted(ex, 0)->remote_addr, 22);
	assert_int_equal(posted(ex, 0)->imm, 33);
	assert_int_equal(posted(ex, 0)->length, 7);
	assert_int_equal(posted(ex, 0)->num_sge, 2);
	assert_int_equal(posted(ex, 1)->flags, IBV_SEND_INLINE);
	assert_int_equal(posted(ex, 1)->length, 5);
	assert_memory_equal(posted(ex, 1)->inline_data, "abcde", 5);
	assert_int_equal(posted(ex, 2)->operands.compare, 2);
	assert_int_equal(posted(ex, 2)->operands.swap_add, 3);
	assert_int_equal(posted(ex, 2)->length, 8);
	assert_int_equal(posted(ex, 3)->imm, 55);
	assert_int_equal(posted(ex, 3)->num_sge, 0);
	assert_int_equal(qp_destroy(qp_under(ex)), 0);
}

static void test_abort_posts_nothing(void **state)
{
	struct ibv_qp_ex *ex = ready(*state, IBV_QPT_RC);
	int issues = path_issues;

	for (int round = 0; round < 5; round++) {
		ibv_wr_start(ex);
		for (int i = 0; i < 6; i++)
			ibv_wr_send(ex);
		ibv_wr_abort(ex);
		expect_posted(ex, 0);
	}
	assert_int_equal(path_issues, issues);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_posted(ex, 1);
	assert_int_equal(qp_destroy(qp_under(ex)), 0);
}

/* One wrong request among good ones: complete tells, and nothing is posted. */
static void test_an_error_posts_nothing(void **state)
{
	struct ibv_qp_ex *ex = ready(*state, IBV_QPT_RC);
	static char data[33];
	struct ibv_sge list[5] = { { 0 } };

	for (int wrong = 0; wrong < 6; wrong++) {
		int expected = EINVAL;

		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 1, 2, 3);
		ibv_wr_rdma_read(ex, 1, 2);
		switch (wrong) {
		case 0:
			ibv_wr_set_sge_list(ex, 5, list);
			break;
		case 1:
			ibv_wr_set_inline_data(ex, data, 8); /* of a READ */
			break;
		case 2:
			ibv_wr_send(ex);
			ibv_wr_set_inline_data(ex, data, 33);
			break;
		case 3:
			ibv_wr_send_tso(ex, data, 1, 1);
			expected = EOPNOTSUPP;
			break;
		case 4:
			ibv_wr_set_ud_addr(ex, NULL, 1, 2);
			break;
		case 5:
			for (int i = 0; i < 7; i++)
				ibv_wr_send(ex);
			expected = ENOMEM;
			break;
		}
		ibv_wr_send(ex);
		assert_int_equal(ibv_wr_complete(ex), expected);
		expect_posted(ex, 0);
	}
	assert_int_equal(qp_destroy(qp_under(ex)), 0);
}

/* Of a QP whose program did not ask for them, as programs look whether they are there. */
static void test_newer_builders(void **state)
{
	static const uint64_t asked[] = { IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_ATOMIC_WRITE,
					  COMPAT_QP_EX_WITH_FLUSH };

	for (unsigned i = 0; i < 3; i++) {
		struct qp *qp = world_qp(*state, IBV_QPT_RC);

		qp_ex_init(qp, asked[i]);
		assert_non_null(qp->ex.wr_send);
		assert_int_equal(qp->ex.wr_atomic_write != NULL, i == 1);
		assert_int_equal(qp->newest.wr_flush != NULL, i == 2);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void test_state(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC);

	qp_ex_init(qp, opcode_send_ops(qp->type));
	world_to(qp, IBV_QPS_RTR);
	ibv_wr_start(&qp->ex);
	ibv_wr_send(&qp->ex);
	assert_int_equal(ibv_wr_complete(&qp->ex), EINVAL);
	assert_int_equal(world_move(qp, IBV_QPS_ERR), 0);
	ibv_wr_start(&qp->ex);
	qp->ex.wr_id = 3;
	ibv_wr_send(&qp->ex);
	assert_int_equal(ibv_wr_complete(&qp->ex), 0);
	expect_wc(world->cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_address_handle_is_let_go(void **state)
{
	struct world *world = *state;
	struct ibv_qp_ex *ex = ready(world, IBV_QPT_UD);
	struct ibv_ah_attr attr = { .port_num = 1 };
	union ibv_gid gid = { 0 };
	struct ah *ah;

	assert_int_equal(ah_create(world->pd, &attr, &gid, true, &ah), 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, &ah->ib, 1, 2);
	ibv_wr_set_ud_addr(ex, &ah->ib, 3, 4);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, &ah->ib, 5, 6);
	assert_int_equal(ah->references, 3);
	ibv_wr_abort(ex);
	assert_int_equal(ah->references, 1);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, &ah->ib, 5, 6);
	ibv_wr_send(ex); /* without an address */
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ah->references, 1);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, &ah->ib, 5, 6);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted(ex, 0)->remote_qpn, 5);
	assert_int_equal(qp_destroy(qp_under(ex)), 0);
	assert_int_equal(ah->references, 1);
	ah_destroy(ah);
}

static void test_operations_of_a_service(void **state)
{
	assert_int_equal(qp_ex_check(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ), 0);
	assert_int_equal(qp_ex_check(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
	assert_int_equal(qp_ex_check(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), EOPNOTSUPP);
	assert_int_equal(qp_ex_check(IBV_QPT_UD, IBV_QP_EX_WITH_SEND), 0);
	assert_int_equal(qp_ex_check(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
	/* iWARP: with RFC 7306, which has no immediate data of a SEND */
	assert_int_equal(qp_ex_check(OPCODE_QPT_RNIC, IBV_QP_EX_WITH_SEND_WITH_INV), 0);
	assert_int_equal(qp_ex_check(OPCODE_QPT_RNIC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM), 0);
	assert_int_equal(qp_ex_check(OPCODE_QPT_RNIC, IBV_QP_EX_WITH_SEND_WITH_IMM), EOPNOTSUPP);
	assert_int_equal(qp_ex_check(OPCODE_QPT_RNIC, COMPAT_QP_EX_WITH_FLUSH), EOPNOTSUPP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_fields),
		TEST(test_abort_posts_nothing),
		TEST(test_an_error_posts_nothing),
		TEST(test_newer_builders),
		TEST(test_state),
		TEST(test_address_handle_is_let_go),
		TEST(test_operations_of_a_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
