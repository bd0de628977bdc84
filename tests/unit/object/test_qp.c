/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "object/limits.h"
#include "object/qp_states.h"

static void test_numbers_are_reused_late(void **state)
{
	struct qp *qp = world_qp(*state, IBV_QPT_RC);
	uint32_t first = qp->ib.qp_num;

	assert_int_equal(first >> ARENA_QP_BITS, WORLD_SLOT);
	assert_int_not_equal(first & (ARENA_QPS - 1), 0);
	assert_int_equal(qp_destroy(qp), 0);
	for (int i = 0; i < 100; i++) {
		qp = world_qp(*state, IBV_QPT_RC);
		assert_int_not_equal(qp->ib.qp_num, first);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void test_find(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC), *found;
	uint32_t qpn = qp->ib.qp_num;

	found = NULL;
	if (qp_find_locked(qpn, &found))
		qp_unlock(found);
	assert_ptr_equal(found, qp);
	assert_false(qp_find_locked(qpn + 1, &found));
	assert_false(qp_find_locked(qpn + (1 << ARENA_QP_BITS), &found));
	assert_int_equal(qp_destroy(qp), 0);
	assert_false(qp_find_locked(qpn, &found));
	assert_int_equal(arena_qps(world->arena)[qpn & (ARENA_QPS - 1)].word, 0);
}

static bool count_visits(struct qp *qp, void *arg)
{
	return ++*(int *)arg < 2;
}

static void test_visit(void **state)
{
	struct qp *qps[3];
	int visits = 0;

	qp_visit(count_visits, &visits);
	assert_int_equal(visits, 0);
	for (int i = 0; i < 3; i++)
		qps[i] = world_qp(*state, IBV_QPT_UC);
	qp_visit(count_visits, &visits);
	assert_int_equal(visits, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(qp_destroy(qps[i]), 0);
}

static void test_limits_and_grants(void **state)
{
	struct world *world = *state;
	const struct ibv_qp_init_attr_ex good = {
		.qp_type = IBV_QPT_RC,
		.send_cq = &world->cq->ib,
		.recv_cq = &world->cq->ib,
		.cap = { .max_send_wr = 10, .max_recv_wr = 3, .max_send_sge = 2 },
	};
	struct ibv_qp_init_attr_ex attr = good;
	struct qp *qp;

	attr.cap.max_send_wr = LIMIT_QP_WR + 1;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), -EINVAL);
	attr = good;
	attr.cap.max_recv_sge = LIMIT_SGE + 1;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), -EINVAL);
	attr = good;
	attr.cap.max_inline_data = LIMIT_INLINE + 1;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), -EINVAL);
	attr = good;
	attr.recv_cq = NULL;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), -EINVAL);
	attr = good;
	attr.qp_type = IBV_QPT_DRIVER;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), -EOPNOTSUPP);
	attr = good;
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &qp), 0);
	assert_int_equal(attr.cap.max_send_wr, 10);
	assert_int_equal(attr.cap.max_send_sge, 2);
	assert_int_equal(attr.cap.max_recv_sge, 1);
	assert_int_equal(cq_destroy(world->cq), -EBUSY);
	assert_int_equal(pd_destroy(world->pd), -EBUSY);
	qp->attachments = 1;
	assert_int_equal(qp_destroy(qp), -EBUSY);
	qp->attachments = 0;
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(path_destroys, 1);
}

static void test_modify_is_published(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC);
	const struct arena_qp *entry = &arena_qps(world->arena)[qp->index];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(entry->word, ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RESET));
	world_to(qp, IBV_QPS_RTS);
	assert_int_equal(path_connects, 1);
	assert_int_equal(entry->word, ARENA_QP_WORD(IBV_QPT_RC, IBV_QPS_RTS));
	assert_int_equal(entry->dest_qpn, 17);
	assert_int_equal(entry->access, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(entry->pd, world->pd->number);
	qp_query(qp, &attr, &init);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, 17);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.cap.max_send_wr, 8);
	assert_ptr_equal(init.send_cq, &world->cq->ib);
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(qp_modify(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(entry->access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(qp_destroy(qp), 0);
}

static const struct {
	int mask;
	struct ibv_qp_attr attr;
} bad_values[] = {
	{ IBV_QP_AV, { .ah_attr = { .port_num = 2 } } },
	{ IBV_QP_PATH_MTU, { .path_mtu = IBV_MTU_4096 + 1 } },
	{ IBV_QP_PATH_MTU, { .path_mtu = 0 } },
	{ IBV_QP_DEST_QPN, { .dest_qp_num = 0x1000000 } },
	{ IBV_QP_MAX_DEST_RD_ATOMIC, { .max_dest_rd_atomic = LIMIT_QP_RD_ATOM + 1 } },
	{ IBV_QP_MIN_RNR_TIMER, { .min_rnr_timer = 32 } },
	{ IBV_QP_PKEY_INDEX, { .pkey_index = 1 } },
	{ IBV_QP_ACCESS_FLAGS, { .qp_access_flags = 1u << 30 } },
};

/* INIT to RTR with one value of the row, the others good. */
static int modify_with(struct qp *qp, size_t row)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.ah_attr = { .port_num = 1 },
	};
	const struct ibv_qp_attr *bad = &bad_values[row].attr;
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	switch (bad_values[row].mask) {
	case IBV_QP_AV:
		attr.ah_attr = bad->ah_attr;
		break;
	case IBV_QP_PATH_MTU:
		attr.path_mtu = bad->path_mtu;
		break;
	default:
		attr.dest_qp_num = bad->dest_qp_num;
		attr.max_dest_rd_atomic = bad->max_dest_rd_atomic;
		attr.min_rnr_timer = bad->min_rnr_timer;
		attr.pkey_index = bad->pkey_index;
		attr.qp_access_flags = bad->qp_access_flags;
		break;
	}
	return qp_modify(qp, &attr, mask | bad_values[row].mask);
}

static void test_refused_modify_changes_nothing(void **state)
{
	struct qp *qp = world_qp(*state, IBV_QPT_RC);
	struct ibv_qp_attr before;

	world_to(qp, IBV_QPS_INIT);
	before = qp->attr;
	for (size_t row = 0; row < sizeof(bad_values) / sizeof(bad_values[0]); row++) {
		assert_int_equal(modify_with(qp, row), EINVAL);
		assert_int_equal(qp_state(qp), IBV_QPS_INIT);
		assert_memory_equal(&before, &qp->attr, sizeof(before));
	}
	assert_int_equal(path_connects, 0);
	path_connect_error = ENETUNREACH;
	assert_int_equal(world_move(qp, IBV_QPS_RTR), ENETUNREACH);
	assert_int_equal(qp_state(qp), IBV_QPS_INIT);
	assert_memory_equal(&before, &qp->attr, sizeof(before));
	assert_int_equal(world_move(qp, IBV_QPS_SQD), EINVAL);
	path_connect_error = 0;
	assert_int_equal(world_move(qp, IBV_QPS_RTR), 0);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_reset_forgets_everything(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC), *other = world_qp(world, IBV_QPT_RC);

	world_to(qp, IBV_QPS_RTS);
	world_to(other, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(post_send(qp, i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(post_recv(qp, 10 + i), 0);
	}
	assert_int_equal(post_send(other, 77, IBV_SEND_SIGNALED), 0);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	path_finish(other, 0, IBV_WC_SUCCESS);
	assert_true(path_receive(qp));
	assert_int_equal(world_move(qp, IBV_QPS_RESET), 0);
	assert_int_equal(path_quiesces, 1);
	expect_wc(world->cq, 77, IBV_WC_SUCCESS); /* what is of others stays */
	expect_empty(world->cq);
	assert_int_equal(post_recv(qp, 1), EINVAL);
	world_to(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(post_send(qp, 20 + i, IBV_SEND_SIGNALED), 0);
		assert_int_equal(post_recv(qp, 30 + i), 0);
	}
	path_finish(qp, 0, IBV_WC_SUCCESS);
	expect_wc(world->cq, 20, IBV_WC_SUCCESS);
	assert_true(path_receive(qp));
	expect_wc(world->cq, 30, IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(other), 0);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_posting_by_state(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC);

	assert_int_equal(post_recv(qp, 1), EINVAL);
	assert_int_equal(post_send(qp, 1, 0), EINVAL);
	world_to(qp, IBV_QPS_INIT);
	assert_int_equal(post_recv(qp, 2), 0);
	assert_int_equal(post_send(qp, 1, 0), EINVAL);
	assert_int_equal(world_move(qp, IBV_QPS_RTR), 0);
	assert_int_equal(post_send(qp, 1, 0), EINVAL);
	assert_int_equal(world_move(qp, IBV_QPS_ERR), 0);
	expect_wc(world->cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_empty(world->cq);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_send_queue_drains(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;

	world_to(qp, IBV_QPS_RTS);
	assert_int_equal(post_send(qp, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(post_send(qp, 2, IBV_SEND_SIGNALED), 0);
	qp_query(qp, &attr, &init);
	assert_int_equal(attr.sq_draining, 1);
	assert_false(next_event(world, &event));
	path_finish(qp, 0, IBV_WC_SUCCESS);
	expect_wc(world->cq, 1, IBV_WC_SUCCESS);
	assert_true(next_event(world, &event));
	assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
	assert_false(next_event(world, &event));
	qp_query(qp, &attr, &init);
	assert_int_equal(attr.sq_draining, 0);
	assert_int_equal(qp->sq.issue, qp->sq.head); /* 2 waits */
	assert_int_equal(world_move(qp, IBV_QPS_RTS), 0);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	expect_wc(world->cq, 2, IBV_WC_SUCCESS);
	qp->ib.events_completed = 1;
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_last_wqe_reached_once(void **state)
{
	struct world *world = *state;
	struct ibv_srq_attr srq_attr = { .max_wr = 4, .max_sge = 1 };
	struct ibv_async_event event;
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(srq_create(world->context, world->pd, NULL, &srq_attr, &srq), 0);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC,
					    .srq = &srq->ib,
					    .cap = { .max_send_wr = 1 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = 9 };

	qp = world_qp_of(world, &attr);
	world_to(qp, IBV_QPS_RTS);
	assert_int_equal(rq_post(&srq->rq, &wr, &bad), 0);
	assert_int_equal(world_move(qp, IBV_QPS_ERR), 0);
	expect_empty(world->cq); /* the SRQ keeps its receives */
	assert_int_equal(srq->rq.tail - srq->rq.head, 1);
	assert_true(next_event(world, &event));
	assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(event.element.qp, &qp->ib);
	assert_int_equal(world_move(qp, IBV_QPS_ERR), 0);
	assert_false(next_event(world, &event));
	qp->ib.events_completed = 1;
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
}

static void test_destroy_takes_completions_and_events_along(void **state)
{
	struct world *world = *state;
	struct qp *qp = world_qp(world, IBV_QPT_RC);
	struct ibv_async_event event;

	world_to(qp, IBV_QPS_RTS);
	assert_int_equal(post_recv(qp, 1), 0);
	assert_true(path_receive(qp));
	qp_raise(qp, IBV_EVENT_COMM_EST);
	assert_int_equal(qp_destroy(qp), 0);
	expect_empty(world->cq);
	assert_false(next_event(world, &event));
}

static void test_every_index_can_be_had(void **state)
{
	struct world *world = *state;
	static struct qp *qps[ARENA_QPS];
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_UD };
	struct qp *one_more;

	assert_int_equal(arena_header(world->arena)->qps_used, 0);
	for (int i = 0; i < LIMIT_QP; i++) {
		qps[i] = world_qp_of(world, &attr);

		uint32_t index = qps[i]->ib.qp_num % ARENA_QPS;

		/* peers map what has a bit */
		assert_true(arena_header(world->arena)->qps_used >> index / ARENA_QPS_A_BIT & 1);

		/* in the last slot the highest one would be 0xffffff, as no QP is called */
		assert_true(index != 0 && index != ARENA_QPS - 1);
	}
	assert_int_equal(qp_create(world->context, world->pd, &attr, &fake_path, &one_more),
			 -ENOMEM);
	for (int i = 0; i < LIMIT_QP; i++)
		assert_int_equal(qp_destroy(qps[i]), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_numbers_are_reused_late),
		TEST(test_find),
		TEST(test_visit),
		TEST(test_limits_and_grants),
		TEST(test_modify_is_published),
		TEST(test_refused_modify_changes_nothing),
		TEST(test_reset_forgets_everything),
		TEST(test_posting_by_state),
		TEST(test_send_queue_drains),
		TEST(test_last_wqe_reached_once),
		TEST(test_destroy_takes_completions_and_events_along),
		TEST(test_every_index_can_be_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
