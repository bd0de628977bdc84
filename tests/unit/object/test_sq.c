/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "object/ah.h"
#include "object/limits.h"
#include "verbs/ops.h"

static struct qp *ready_qp(struct world *world, enum ibv_qp_type type)
{
	struct qp *qp = world_qp(world, type);

	world_to(qp, IBV_QPS_RTS);
	return qp;
}

static void test_place_is_free_when_its_completion_is_polled(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_RC);

	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_send(qp, i, i == 3 || i == 7 ? IBV_SEND_SIGNALED : 0), 0);
	assert_int_equal(post_send(qp, 8, 0), ENOMEM);
	for (int i = 0; i < 5; i++)
		path_finish(qp, 0, IBV_WC_SUCCESS);
	assert_int_equal(post_send(qp, 8, 0), ENOMEM); /* finished, not polled */
	expect_wc(world->cq, 3, IBV_WC_SUCCESS);
	expect_empty(world->cq);
	for (uint64_t i = 8; i < 12; i++) /* 0 to 3 are free; 4 waits for 7 */
		assert_int_equal(post_send(qp, i, 0), 0);
	assert_int_equal(post_send(qp, 12, 0), ENOMEM);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_retires_in_order(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_RC);

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_send(qp, i, IBV_SEND_SIGNALED), 0);
	path_finish(qp, 2, IBV_WC_SUCCESS);
	path_finish(qp, 1, IBV_WC_SUCCESS);
	expect_empty(world->cq);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 3; i++)
		expect_wc(world->cq, i, IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_sig_all(void **state)
{
	struct world *world = *state;
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
					    .cap = { .max_send_wr = 2 },
					    .sq_sig_all = 1 };
	struct qp *qp = world_qp_of(world, &attr);

	world_to(qp, IBV_QPS_RTS);
	assert_int_equal(post_send(qp, 1, 0), 0);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	expect_wc(world->cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_failure_completes_unsignalled_and_flushes(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_RC);
	struct ibv_wc wc;

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_send(qp, i, 0), 0);
	assert_int_equal(post_recv(qp, 100), 0);
	assert_int_equal(post_recv(qp, 101), 0);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	path_finish(qp, 2, IBV_WC_SUCCESS); /* 3: done behind the one that fails */
	path_finish(qp, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(qp_state(qp), IBV_QPS_RTS); /* 1 is still on its way, and comes first */
	path_finish(qp, 0, IBV_WC_SUCCESS);
	assert_int_equal(qp_state(qp), IBV_QPS_ERR);
	assert_int_equal(cq_pop(world->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.qp_num, qp->ib.qp_num);
	assert_int_equal(wc.vendor_err, CAUSE_INTERNAL);
	expect_wc(world->cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_wc(world->cq, 4, IBV_WC_WR_FLUSH_ERR);
	expect_wc(world->cq, 100, IBV_WC_WR_FLUSH_ERR);
	expect_wc(world->cq, 101, IBV_WC_WR_FLUSH_ERR);
	expect_empty(world->cq);
	assert_int_equal(path_quiesces, 1);

	assert_int_equal(post_send(qp, 5, 0), 0); /* new work too, each once */
	assert_int_equal(post_recv(qp, 102), 0);
	expect_wc(world->cq, 5, IBV_WC_WR_FLUSH_ERR);
	expect_wc(world->cq, 102, IBV_WC_WR_FLUSH_ERR);
	expect_empty(world->cq);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_ud_goes_to_sqe_and_back(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_UD);
	struct ibv_ah_attr ah_attr = { .port_num = 1 };
	union ibv_gid gid = { 0 };
	struct ah *ah;
	struct ibv_send_wr *bad, wr[3] = { 0 };

	assert_int_equal(ah_create(world->pd, &ah_attr, &gid, true, &ah), 0);
	for (int i = 0; i < 3; i++) {
		wr[i].wr_id = (uint64_t)i;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].wr.ud.ah = &ah->ib;
	}
	assert_int_equal(post_recv(qp, 50), 0);
	assert_int_equal(verbs_post_send(&qp->ib, wr, &bad), 0);
	assert_int_equal(ah->references, 4);
	path_finish(qp, 0, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_state(qp), IBV_QPS_SQE);
	expect_wc(world->cq, 0, IBV_WC_LOC_PROT_ERR);
	expect_wc(world->cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(world->cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ah->references, 1);
	assert_int_equal(verbs_post_send(&qp->ib, &wr[2], &bad), 0);
	expect_wc(world->cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_true(path_receive(qp)); /* the receive queue goes on */
	expect_wc(world->cq, 50, IBV_WC_SUCCESS);
	assert_int_equal(world_move(qp, IBV_QPS_RTS), 0);
	assert_int_equal(verbs_post_send(&qp->ib, &wr[2], &bad), 0);
	expect_empty(world->cq);
	assert_int_equal(ah->references, 2);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(ah->references, 1);
	ah_destroy(ah);
}

static void test_what_each_service_can_do(void **state)
{
	static const char *const able[] = {
		/*
		 * WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CMP_SWP, FETCH_ADD, INV, BIND,
		 * SEND_WITH_INV, TSO, DRIVER1, -, -, FLUSH (by builders only), ATOMIC_WRITE
		 */
		[IBV_QPT_RC] = "yyyyyyyyyynnnnny",
		[IBV_QPT_UC] = "yyyynnnyyynnnnnn",
		[IBV_QPT_UD] = "nnyynnnnnnnnnnnn",
	};
	struct world *world = *state;
	struct ibv_ah_attr ah_attr = { .port_num = 1 };
	union ibv_gid gid = { 0 };
	struct ah *ah;

	assert_int_equal(ah_create(world->pd, &ah_attr, &gid, true, &ah), 0);
	for (int type = IBV_QPT_RC; type <= IBV_QPT_UD; type++) {
		for (int opcode = 0; opcode < 40; opcode++) {
			struct qp *qp = ready_qp(world, (enum ibv_qp_type)type);
			struct ibv_sge sge = { .length = 8 };
			struct ibv_send_wr *bad = NULL, wr = {
				.sg_list = &sge, .num_sge = 1, .opcode = (enum ibv_wr_opcode)opcode
			};
			bool can = opcode < 16 && able[type][opcode] == 'y';

			if (type == IBV_QPT_UD)
				wr.wr.ud.ah = &ah->ib;
			assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), can ? 0 : EINVAL);
			assert_ptr_equal(bad, can ? NULL : &wr);
			assert_int_equal(qp_destroy(qp), 0);
		}
	}
	ah_destroy(ah);
}

static void test_refused_requests(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_RC);
	char data[40] = { 0 };
	struct ibv_sge sge[5] = { { .addr = (uintptr_t)data, .length = 33 } };
	struct ibv_send_wr *bad = NULL,
			   wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 5 };

	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL); /* SGEs */
	wr.num_sge = -1;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL);
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL); /* inline */
	sge[0].length = 32;
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL);
	wr.send_flags = 0;
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge[0].length = LIMIT_MESSAGE;
	sge[1].length = 1;
	wr.num_sge = 2;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL);
	wr.num_sge = 1;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), 0);
	assert_int_equal(qp->sq.tail - qp->sq.head, 1);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_datagram_needs_its_address(void **state)
{
	struct world *world = *state;
	struct qp *qp = ready_qp(world, IBV_QPT_UD);
	struct ibv_ah_attr ah_attr = { .port_num = 1 };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	union ibv_gid gid = { 0 };
	struct pd *other;
	struct ah *ah;

	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), EINVAL);
	assert_int_equal(pd_create(&world->context->verbs.context, &other), 0);
	assert_int_equal(ah_create(other, &ah_attr, &gid, true, &ah), 0);
	wr.wr.ud.ah = &ah->ib;
	/* one of another PD is a completion with error (IBA C10-10), which the path makes */
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), 0);
	ah_destroy(ah);
	assert_int_equal(pd_destroy(other), 0);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_copies_at_the_time_of_the_post(void **state)
{
	struct qp *qp = ready_qp(*state, IBV_QPT_RC);
	char data[] = "0123456789";
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)data, .length = 4, .lkey = 77 },
		{ .addr = (uintptr_t)data + 8, .length = 2, .lkey = 78 },
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.sg_list = sge,
		.num_sge = 2,
		.send_flags = IBV_SEND_INLINE,
		.imm_data = 0x1234,
	};
	struct wqe *wqe;

	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), 0);
	wr.send_flags = IBV_SEND_SOLICITED;
	assert_int_equal(verbs_post_send(&qp->ib, &wr, &bad), 0);
	memset(data, 0, sizeof(data));
	sge[0].lkey = 0;
	wqe = sq_wqe(&qp->sq, qp->sq.head);
	assert_int_equal(wqe->length, 6);
	assert_int_equal(wqe->num_sge, 0);
	assert_int_equal(wqe->imm, 0x1234);
	assert_memory_equal(wqe->inline_data, "012389", 6);
	wqe = sq_wqe(&qp->sq, qp->sq.head + 1);
	assert_int_equal(wqe->length, 6);
	assert_int_equal(wqe->num_sge, 2);
	assert_int_equal(wqe->flags, IBV_SEND_SOLICITED);
	assert_int_equal(wqe->sge[0].lkey, 77);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_chain_up_to_the_one_that_does_not_fit(void **state)
{
	struct qp *qp = ready_qp(*state, IBV_QPT_RC);
	struct ibv_send_wr *bad = NULL, wr[10] = { 0 };
	int issues = path_issues;

	for (int i = 0; i < 10; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 9 ? &wr[i + 1] : NULL;
	}
	assert_int_equal(verbs_post_send(&qp->ib, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[8]);
	assert_int_equal(qp->sq.tail - qp->sq.head, 8);
	assert_int_equal(path_issues, issues + 1);
	assert_int_equal(qp_destroy(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_place_is_free_when_its_completion_is_polled),
		TEST(test_retires_in_order),
		TEST(test_sig_all),
		TEST(test_failure_completes_unsignalled_and_flushes),
		TEST(test_ud_goes_to_sqe_and_back),
		TEST(test_what_each_service_can_do),
		TEST(test_refused_requests),
		TEST(test_datagram_needs_its_address),
		TEST(test_copies_at_the_time_of_the_post),
		TEST(test_chain_up_to_the_one_that_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
