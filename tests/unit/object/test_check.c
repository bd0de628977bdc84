/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of object/: send, receive and completion queues. */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../broken.h"

/* Of three requests in RTS one is issued and one done; two receives of four are taken. */
static struct qp *make_qp(struct world *world)
{
	struct qp *qp = world_qp(world, IBV_QPT_RC);

	world_to(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post_recv(qp, i), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_send(qp, i, IBV_SEND_SIGNALED), 0);
	path_finish(qp, 0, IBV_WC_SUCCESS);
	assert_true(path_receive(qp));
	assert_true(path_receive(qp));
	return qp;
}

static void test_send_queue(void **state) NO_LOCK_CHECK
{
	struct qp *qp = make_qp(*state);
	struct sq *sq = &qp->sq;

	lock_acquire(&qp->lock);
	assert_broken(sq->head = sq->tail + 1, qp_check(qp));
	assert_broken(sq->issue = sq->head - 2, qp_check(qp));
	assert_broken(sq->tail += sq->max_wr, qp_check(qp));
	assert_broken(sq->released = sq->head + 1, qp_check(qp));
	assert_broken(sq_wqe(sq, sq->head)->state = WQE_POSTED, qp_check(qp));
	assert_broken(sq->issue = sq->head, qp_check(qp)); /* later requests were issued */
	assert_broken(sq_wqe(sq, sq->head)->num_sge = 33, qp_check(qp));
	assert_broken(lock_release(&qp->lock), qp_check(qp));
	lock_release(&qp->lock);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_receive_queue(void **state)
{
	struct qp *qp = make_qp(*state);
	struct rq *rq = &qp->own_rq;

	lock_acquire(&rq->lock);
	assert_broken(rq->head = rq->tail + 1, rq_check(rq));
	assert_broken(rq->released = rq->head + 1, rq_check(rq));
	assert_broken(rq->tail += rq->max_wr, rq_check(rq));
	assert_broken(rq->mask = 5, rq_check(rq));
	lock_release(&rq->lock);
	assert_int_equal(qp_destroy(qp), 0);
}

static void test_completion_queue(void **state)
{
	struct world *world = *state;
	struct qp *qp = make_qp(world);
	struct cq *cq = world->cq;

	lock_acquire(&cq->lock);
	assert_broken(cq->head = cq->tail + 1, cq_check(cq));
	assert_broken(cq->tail = cq->head + cq->capacity + 1, cq_check(cq));
	assert_broken(cq->ring_mask = 6, cq_check(cq));
	assert_broken(cq->ring[cq->head & cq->ring_mask].kind = 7, cq_check(cq));
	assert_broken(cq->ring[cq->head & cq->ring_mask].qp_num ^= 1, cq_check(cq));
	assert_broken(qp->sq.released = qp->sq.tail, cq_check(cq)); /* it is not polled yet */
	lock_release(&cq->lock);
	assert_int_equal(qp_destroy(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, world_setup, world_teardown)
		TEST(send_queue),
		TEST(receive_queue),
		TEST(completion_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
