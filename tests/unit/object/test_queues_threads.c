/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that post, poll, look QPs up, break and destroy them, all at once. */
#include "world.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "object/acknowledge.h"
#include "verbs/ops.h"

#define ROUNDS	  20000
#define ROUNDS_NS 15000000000ull /* fewer rounds on a busy machine */

static _Atomic bool stop;
static _Atomic uint32_t current_qpn;

struct flow {
	struct cq *cq;
	struct qp *qp;
	_Atomic uint64_t polled;
};

static void *post_all(void *arg)
{
	struct flow *flow = arg;

	for (uint64_t i = 0; i < ROUNDS; i++)
		while (post_send(flow->qp, i, IBV_SEND_SIGNALED) == ENOMEM)
			sched_yield();
	return NULL;
}

static void *poll_all(void *arg)
{
	struct flow *flow = arg;
	struct ibv_wc wc[4];

	while (flow->polled < ROUNDS) {
		int count = cq_pop(flow->cq, 4, wc);

		for (int i = 0; i < count; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[i].wr_id, flow->polled++);
		}
		if (count == 0)
			sched_yield();
	}
	return NULL;
}

static void test_poster_and_poller(void **state)
{
	struct world *world = *state;
	struct flow flow = { .cq = world->cq };
	pthread_t threads[2];

	path_mode = PATH_FINISHES;
	flow.qp = world_qp(world, IBV_QPT_RC);
	world_to(flow.qp, IBV_QPS_RTS);
	pthread_create(&threads[0], NULL, post_all, &flow);
	pthread_create(&threads[1], NULL, poll_all, &flow);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	expect_empty(world->cq);
	assert_int_equal(qp_destroy(flow.qp), 0);
}

static void *find_all(void *arg)
{
	while (!stop) {
		uint32_t qpn = current_qpn;
		struct qp *qp;

		if (!qp_find_locked(qpn, &qp))
			continue;
		assert_int_equal(qp->ib.qp_num, qpn);
		if (qp_state(qp) == IBV_QPS_RTS)
			qp->path->issue(qp);
		qp_unlock(qp);
	}
	return NULL;
}

static bool look(struct qp *qp, void *arg)
{
	assert_non_null(qp->sq.ring); /* it may be being destroyed, but is whole */
	qp_retire(qp);
	return true;
}

static void *visit_all(void *arg)
{
	while (!stop) {
		qp_visit(look, NULL);
		sched_yield();
	}
	return NULL;
}

static void *drain_all(void *arg)
{
	struct world *world = arg;
	struct ibv_wc wc[8];

	while (!stop)
		cq_pop(world->cq, 8, wc);
	return NULL;
}

static void test_destroyed_under_the_feet_of_others(void **state)
{
	struct world *world = *state;
	pthread_t threads[4];

	stop = false;
	path_mode = PATH_FINISHES;
	pthread_create(&threads[0], NULL, find_all, NULL);
	pthread_create(&threads[1], NULL, find_all, NULL);
	pthread_create(&threads[2], NULL, visit_all, NULL);
	pthread_create(&threads[3], NULL, drain_all, world);
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct qp *qp = world_qp(world, IBV_QPT_RC);

		current_qpn = qp->ib.qp_num;
		world_to(qp, IBV_QPS_RTS);
		post_recv(qp, 1);
		post_send(qp, 1, IBV_SEND_SIGNALED);
		post_send(qp, 2, IBV_SEND_SIGNALED);
		if (i % 3 == 0)
			assert_int_equal(world_move(qp, IBV_QPS_ERR), 0);
		assert_int_equal(qp_destroy(qp), 0);
	}
	stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void *post_receives(void *arg)
{
	struct flow *flow = arg;

	for (uint64_t i = 0; i < ROUNDS; i++)
		while (post_recv(flow->qp, i) == ENOMEM)
			sched_yield();
	return NULL;
}

static void *poll_receives(void *arg)
{
	struct flow *flow = arg;
	struct ibv_wc wc;

	while (flow->polled < ROUNDS) {
		if (cq_pop(flow->cq, 1, &wc) == 0) {
			sched_yield();
			continue;
		}
		assert_int_equal(wc.wr_id, flow->polled++);
	}
	return NULL;
}

/* The QP goes to ERR while receives are posted: every one completes once, in order. */
static void test_receives_posted_while_it_fails(void **state)
{
	struct world *world = *state;
	struct flow flow = { .cq = world->cq };
	uint64_t end_ns = clock_now_ns() + ROUNDS_NS;
	pthread_t threads[2];

	flow.qp = world_qp(world, IBV_QPT_RC);
	world_to(flow.qp, IBV_QPS_RTS);
	pthread_create(&threads[0], NULL, post_receives, &flow);
	pthread_create(&threads[1], NULL, poll_receives, &flow);
	for (int i = 0; i < ROUNDS / 2 && clock_now_ns() < end_ns; i++) {
		path_receive(flow.qp);
		sched_yield();
	}
	assert_int_equal(world_move(flow.qp, IBV_QPS_ERR), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	expect_empty(world->cq);
	assert_int_equal(qp_destroy(flow.qp), 0);
}

struct waiter {
	struct channel *channel;
	struct cq *cq;
	uint64_t events;
};

/* Arms, drains, waits: the way of every program that sleeps. */
static void *wait_for_events(void *arg)
{
	struct waiter *waiter = arg;
	uint64_t seen = 0;
	struct ibv_wc wc;
	struct cq *taken;

	for (;;) {
		cq_arm(waiter->cq, false);
		while (cq_pop(waiter->cq, 1, &wc))
			seen++;
		if (seen >= ROUNDS)
			return NULL;
		assert_int_equal(channel_take(waiter->channel, &taken), 0);
		assert_ptr_equal(taken, waiter->cq);
		acknowledge(&taken->ib.mutex, &taken->ib.cond, &taken->ib.comp_events_completed, 1);
	}
}

static void test_no_event_is_missed(void **state)
{
	struct world *world = *state;
	struct waiter waiter = { 0 };
	struct rq rq = { 0 };
	struct cqe cqe = { .rq = &rq, .kind = CQE_RECEIVE };
	pthread_t thread;

	assert_int_equal(channel_create(&world->context->verbs.context, &waiter.channel), 0);
	waiter.cq = world_cq(world, ROUNDS, waiter.channel);
	pthread_create(&thread, NULL, wait_for_events, &waiter);
	for (int i = 0; i < ROUNDS; i++) {
		cq_push(waiter.cq, &cqe, false);
		if (i % 16 == 0)
			sched_yield();
	}
	pthread_join(thread, NULL);
	assert_int_equal(cq_destroy(waiter.cq), 0);
	assert_int_equal(channel_destroy(waiter.channel), 0);
}

static void *take_marked(void *arg)
{
	struct waiter *waiter = arg;
	struct cq *taken;

	for (;;) {
		assert_int_equal(channel_take(waiter->channel, &taken), 0);
		if (taken == waiter->cq)
			break;
		acknowledge(&taken->ib.mutex, &taken->ib.cond, &taken->ib.comp_events_completed, 1);
	}
	acknowledge(&taken->ib.mutex, &taken->ib.cond, &taken->ib.comp_events_completed, 1);
	return NULL;
}

/* CQs with pending events are destroyed while a reader waits: it never gets a dead one. */
static void test_cqs_destroyed_while_a_reader_waits(void **state)
{
	struct world *world = *state;
	struct waiter waiter = { 0 };
	struct rq rq = { 0 };
	struct cqe cqe = { .rq = &rq, .kind = CQE_RECEIVE };
	pthread_t thread;

	assert_int_equal(channel_create(&world->context->verbs.context, &waiter.channel), 0);
	waiter.cq = world_cq(world, 4, waiter.channel);
	pthread_create(&thread, NULL, take_marked, &waiter);
	for (int i = 0; i < ROUNDS / 10; i++) {
		struct cq *cq = world_cq(world, 4, waiter.channel);

		cq_arm(cq, false);
		cq_push(cq, &cqe, false);
		assert_int_equal(cq_destroy(cq), 0);
	}
	cq_arm(waiter.cq, false);
	cq_push(waiter.cq, &cqe, false);
	pthread_join(thread, NULL);
	assert_int_equal(cq_destroy(waiter.cq), 0);
	assert_int_equal(channel_destroy(waiter.channel), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_poster_and_poller),
		TEST(test_destroyed_under_the_feet_of_others),
		TEST(test_receives_posted_while_it_fails),
		TEST(test_no_event_is_missed),
		TEST(test_cqs_destroyed_while_a_reader_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
