/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "object/limits.h"
#include "verbs/ops.h"

static int post(struct rq *rq, uint64_t wr_id, int num_sge)
{
	struct ibv_sge sge[4] = { { .addr = wr_id, .length = 10 }, { .length = 20 } };
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = num_sge };

	return rq_post(rq, &wr, &bad);
}

static void test_wrap(void **state)
{
	uint64_t posted = 0, taken = 0;
	struct receive receive;
	struct rq rq;

	assert_int_equal(rq_init(&rq, 5, 2), 0);
	rq.head = rq.tail = UINT32_MAX - 7; /* the numbers wrap too */
	rq.released = UINT32_MAX - 7;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 5; i++)
			assert_int_equal(post(&rq, posted++, 2), 0);
		assert_int_equal(post(&rq, 99, 2), ENOMEM);
		for (int i = 0; i < 5; i++) {
			assert_true(round % 2 ? rq_take(&rq, &receive) != RQ_EMPTY
					      : rq_take_own(&rq, &receive));
			assert_int_equal(receive.wr_id, taken);
			assert_int_equal(receive.num_sge, 2);
			assert_int_equal(receive.sge[0].addr, taken++);
			assert_int_equal(receive.length, 30);
		}
		assert_false(rq_take(&rq, &receive));
		assert_false(rq_take_own(&rq, &receive));
		rq_release(&rq, 5);
	}
	rq_fini(&rq);
}

static void test_place_is_free_when_its_completion_is_polled(void **state)
{
	struct receive receive;
	struct rq rq;

	assert_int_equal(rq_init(&rq, 2, 1), 0);
	assert_int_equal(post(&rq, 1, 1), 0);
	assert_int_equal(post(&rq, 2, 1), 0);
	assert_true(rq_take(&rq, &receive));
	assert_int_equal(post(&rq, 3, 1), ENOMEM);
	rq_release(&rq, 1);
	assert_int_equal(post(&rq, 3, 1), 0);
	rq_clear(&rq);
	assert_false(rq_take(&rq, &receive));
	assert_int_equal(post(&rq, 4, 1), 0);
	assert_int_equal(post(&rq, 5, 1), 0);
	rq_fini(&rq);
}

static void test_chain_up_to_the_bad_one(void **state)
{
	struct ibv_sge sge[3] = { { .length = 1 } };
	struct ibv_recv_wr wr[3] = {
		{ .wr_id = 1, .next = &wr[1] },
		{ .wr_id = 2, .next = &wr[2], .sg_list = sge, .num_sge = 3 },
		{ .wr_id = 3 },
	};
	struct ibv_recv_wr *bad = NULL;
	struct rq rq;

	assert_int_equal(rq_init(&rq, 4, 2), 0);
	assert_int_equal(rq_post(&rq, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(rq.tail, 1);
	wr[1].num_sge = -1;
	assert_int_equal(rq_post(&rq, &wr[1], &bad), EINVAL);
	rq_fini(&rq);
}

static void test_length_saturates(void **state)
{
	struct ibv_sge sge[2] = { { .length = UINT32_MAX }, { .length = UINT32_MAX } };
	struct ibv_recv_wr *bad, wr = { .sg_list = sge, .num_sge = 2 };
	struct receive receive;
	struct rq rq;

	assert_int_equal(rq_init(&rq, 1, 2), 0);
	assert_int_equal(rq_post(&rq, &wr, &bad), 0);
	assert_true(rq_take(&rq, &receive));
	assert_int_equal(receive.length, UINT32_MAX);
	rq_fini(&rq);
}

static struct srq *make_srq(struct world *world, uint32_t max_wr)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr, .max_sge = 2 };
	struct srq *srq;

	assert_int_equal(srq_create(world->context, world->pd, NULL, &attr, &srq), 0);
	return srq;
}

static void test_srq_limits(void **state)
{
	struct world *world = *state;
	struct ibv_srq_attr attr = { .max_wr = 0, .max_sge = 1 };
	struct srq *srq;

	assert_int_equal(srq_create(world->context, world->pd, NULL, &attr, &srq), -EINVAL);
	attr.max_wr = LIMIT_SRQ_WR + 1;
	assert_int_equal(srq_create(world->context, world->pd, NULL, &attr, &srq), -EINVAL);
	attr.max_wr = 1;
	attr.max_sge = LIMIT_SRQ_SGE + 1;
	assert_int_equal(srq_create(world->context, world->pd, NULL, &attr, &srq), -EINVAL);
	attr.max_sge = 0;
	assert_int_equal(srq_create(world->context, world->pd, NULL, &attr, &srq), 0);
	assert_int_equal(attr.max_sge, 1);
	assert_int_equal(srq_destroy(srq), 0);
}

static void test_srq_limit_event_once_per_arming(void **state)
{
	struct world *world = *state;
	struct srq *srq = make_srq(world, 8);
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct ibv_async_event event;
	struct receive receive;

	for (int i = 0; i < 5; i++)
		assert_int_equal(post(&srq->rq, (uint64_t)i, 1), 0);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	srq_query(srq, &attr);
	assert_int_equal(attr.srq_limit, 3);
	assert_int_equal(attr.max_wr, 8);
	assert_true(srq_take(srq, &receive));
	assert_true(srq_take(srq, &receive)); /* 3 left: not below */
	assert_false(next_event(world, &event));
	assert_true(srq_take(srq, &receive));
	assert_true(next_event(world, &event));
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, &srq->ib);
	srq_query(srq, &attr);
	assert_int_equal(attr.srq_limit, 0);
	assert_true(srq_take(srq, &receive));
	assert_false(next_event(world, &event));
	srq->ib.events_completed = 1;
	assert_int_equal(srq_destroy(srq), 0);
}

static void test_srq_modify_refused(void **state)
{
	struct srq *srq = make_srq(*state, 4);
	struct ibv_srq_attr attr = { .max_wr = 2, .srq_limit = 5 };

	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), -EINVAL);
	assert_int_equal(srq_modify(srq, &attr, 1 << 5), -EINVAL);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), -EINVAL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(post(&srq->rq, (uint64_t)i, 1), 0);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	srq_query(srq, &attr);
	assert_int_equal(attr.max_wr, 4);
	assert_int_equal(attr.srq_limit, 0);
	assert_int_equal(srq_destroy(srq), 0);
}

static void test_srq_resize_keeps_receives(void **state)
{
	struct srq *srq = make_srq(*state, 3);
	struct ibv_srq_attr attr = { .max_wr = 10 };
	struct receive receive;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(&srq->rq, i, 1), 0);
	assert_true(srq_take(srq, &receive));
	rq_release(&srq->rq, 1);
	assert_int_equal(post(&srq->rq, 3, 1), 0);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	for (uint64_t i = 4; i < 11; i++)
		assert_int_equal(post(&srq->rq, i, 1), 0);
	assert_int_equal(post(&srq->rq, 11, 1), ENOMEM);
	for (uint64_t i = 1; i < 11; i++) {
		assert_true(srq_take(srq, &receive));
		assert_int_equal(receive.wr_id, i);
	}
	assert_int_equal(srq_destroy(srq), 0);
}

static void test_srq_is_busy(void **state)
{
	struct world *world = *state;
	struct srq *srq = make_srq(world, 4);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.srq = &srq->ib,
		.cap = { .max_send_wr = 1, .max_recv_wr = 7 },
	};
	struct qp *qp = world_qp_of(world, &attr);
	struct ibv_recv_wr *bad, wr = { .wr_id = 1 };

	assert_int_equal(attr.cap.max_recv_wr, 0);
	assert_int_equal(srq_destroy(srq), -EBUSY);
	assert_int_equal(verbs_post_recv(&qp->ib, &wr, &bad), EINVAL);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_wrap),
		TEST(test_place_is_free_when_its_completion_is_polled),
		TEST(test_chain_up_to_the_bad_one),
		TEST(test_length_saturates),
		TEST(test_srq_limits),
		TEST(test_srq_limit_event_once_per_arming),
		TEST(test_srq_modify_refused),
		TEST(test_srq_resize_keeps_receives),
		TEST(test_srq_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
