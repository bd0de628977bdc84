/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "object/acknowledge.h"
#include "object/limits.h"

static struct rq rq; /* whose receives these completions are of */

static void push(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status, bool solicited)
{
	struct cqe cqe = { .wr_id = wr_id, .rq = &rq, .kind = CQE_RECEIVE, .status = status };

	cq_push(cq, &cqe, solicited);
}

static void test_in_order_over_the_end(void **state)
{
	struct cq *cq = world_cq(*state, 5, NULL);
	struct ibv_wc wc[4];
	uint64_t next = 0, posted = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 3; i++)
			push(cq, posted++, IBV_WC_SUCCESS, false);
		assert_int_equal(cq_pop(cq, 4, wc), 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(wc[i].wr_id, next++);
		assert_int_equal(wc[0].opcode, IBV_WC_RECV);
	}
	expect_empty(cq);
	assert_int_equal(cq_destroy(cq), 0);
}

/* A ring whose part doubles, with entries that stay and entries that move, after any number. */
static void test_in_order_while_the_ring_grows(void **state)
{
	for (uint64_t before = 0; before < 3000; before += 97) {
		struct cq *cq = world_cq(*state, 5000, NULL);
		uint32_t mask = cq->ring_mask;
		uint64_t next = 0, posted = 0;
		struct ibv_wc wc;

		while (posted < before) {
			push(cq, posted++, IBV_WC_SUCCESS, false);
			assert_int_equal(cq_pop(cq, 1, &wc), 1);
			assert_int_equal(wc.wr_id, next++);
		}
		assert_int_equal(cq->ring_mask, mask); /* one at a time takes no more memory */
		while (posted < before + 5000)
			push(cq, posted++, IBV_WC_SUCCESS, false);
		assert_true(cq->ring_mask > mask && cq->ring_mask < 8192);
		while (next < posted) {
			assert_int_equal(cq_pop(cq, 1, &wc), 1);
			assert_int_equal(wc.wr_id, next++);
		}
		expect_empty(cq);
		assert_int_equal(cq_destroy(cq), 0);
	}
}

/* The largest CQ takes the memory of what is in it. */
static void test_pages_of_a_large_cq(void **state)
{
	struct cq *cq = world_cq(*state, LIMIT_CQE, NULL);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), taken = 0;
	size_t pages = (LIMIT_CQE + 1) * sizeof(struct cqe) / page;
	uintptr_t ring = (uintptr_t)cq->ring / page * page;
	unsigned char *in_core = calloc(1, pages);
	struct ibv_wc wc;

	assert_non_null(in_core);
	for (uint64_t i = 0; i < LIMIT_CQE / 4; i++) {
		push(cq, i, IBV_WC_SUCCESS, false);
		assert_int_equal(cq_pop(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(mincore((void *)ring, pages * page, in_core), 0);
	for (size_t i = 0; i < pages; i++)
		taken += in_core[i] & 1;
	free(in_core);
	if (taken > 64)
		fail_msg("%zu of %zu pages were taken", taken, pages);
	assert_int_equal(cq_destroy(cq), 0);
}

static void test_limits(void **state)
{
	struct world *world = *state;
	struct ibv_cq_init_attr_ex attr = { .cqe = 0 };
	struct cq *cq;

	assert_int_equal(cq_create(world->context, &attr, &cq), -EINVAL);
	attr.cqe = LIMIT_CQE + 1;
	assert_int_equal(cq_create(world->context, &attr, &cq), -EINVAL);
	attr.cqe = LIMIT_CQE;
	attr.comp_vector = 2;
	assert_int_equal(cq_create(world->context, &attr, &cq), -EINVAL);
	attr.comp_vector = 1;
	attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
	assert_int_equal(cq_create(world->context, &attr, &cq), -EOPNOTSUPP);
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	attr.comp_mask = 1 << 7;
	assert_int_equal(cq_create(world->context, &attr, &cq), -EOPNOTSUPP);
	attr.comp_mask = 0;
	assert_int_equal(cq_create(world->context, &attr, &cq), 0);
	assert_int_equal(cq->ib.cqe, LIMIT_CQE);
	assert_int_equal(cq_destroy(cq), 0);
}

/* The places of several in a row are freed together, whatever is between them. */
static void test_places_are_free_once_polled(void **state)
{
	struct world *world = *state;
	struct rq other = { 0 };
	struct sq sq = { 0 };
	struct cqe receive = { .rq = &other, .kind = CQE_RECEIVE };
	struct cqe gone = { .kind = CQE_RECEIVE }; /* of a queue that was destroyed */
	struct cqe send = { .sq = &sq, .sq_seq = 4, .kind = CQE_SEND };
	struct ibv_wc wc[8];

	rq.released = 0;
	push(world->cq, 0, IBV_WC_SUCCESS, false);
	push(world->cq, 1, IBV_WC_SUCCESS, false);
	push(world->cq, 2, IBV_WC_SUCCESS, false);
	cq_push(world->cq, &send, false);
	push(world->cq, 3, IBV_WC_SUCCESS, false);
	cq_push(world->cq, &receive, false);
	cq_push(world->cq, &gone, false);
	push(world->cq, 4, IBV_WC_SUCCESS, false);
	assert_int_equal(cq_pop(world->cq, 2, wc), 2);
	assert_int_equal(rq.released, 2);
	assert_int_equal(cq_pop(world->cq, 8, wc), 6);
	assert_int_equal(rq.released, 5);
	assert_int_equal(other.released, 1);
	assert_int_equal(sq.released, 5);
}

static void test_overrun(void **state)
{
	struct world *world = *state;
	struct cq *cq = world_cq(world, 3, NULL);
	struct ibv_async_event event;

	for (int i = 0; i < 5; i++)
		push(cq, (uint64_t)i, IBV_WC_SUCCESS, false);
	assert_true(next_event(world, &event));
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, &cq->ib);
	assert_false(next_event(world, &event));
	for (uint64_t i = 0; i < 3; i++)
		expect_wc(cq, i, IBV_WC_SUCCESS);
	push(cq, 9, IBV_WC_SUCCESS, false);
	expect_empty(cq);
	push(world->cq, 7, IBV_WC_SUCCESS, false);
	expect_wc(world->cq, 7, IBV_WC_SUCCESS);
	acknowledge(&cq->ib.mutex, &cq->ib.cond, &cq->ib.async_events_completed, 1);
	assert_int_equal(cq_destroy(cq), 0);
}

static void test_overrun_event_vanishes_with_the_cq(void **state)
{
	struct world *world = *state;
	struct cq *cq = world_cq(world, 1, NULL);
	struct ibv_async_event event;

	push(cq, 1, IBV_WC_SUCCESS, false);
	push(cq, 2, IBV_WC_SUCCESS, false);
	assert_int_equal(cq_destroy(cq), 0);
	assert_false(next_event(world, &event));
}

static void test_ignored_overrun(void **state)
{
	struct world *world = *state;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 1,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_async_event event;
	struct cq *cq;

	assert_int_equal(cq_create(world->context, &attr, &cq), 0);
	push(cq, 1, IBV_WC_SUCCESS, false);
	push(cq, 2, IBV_WC_SUCCESS, false);
	assert_false(next_event(world, &event));
	expect_wc(cq, 1, IBV_WC_SUCCESS);
	push(cq, 3, IBV_WC_SUCCESS, false);
	expect_wc(cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(cq_destroy(cq), 0);
}

static void test_resize(void **state)
{
	struct cq *cq = world_cq(*state, 4, NULL);
	uint64_t next = 3;

	for (uint64_t i = 0; i < 3; i++)
		push(cq, i, IBV_WC_SUCCESS, false);
	for (uint64_t i = 0; i < 3; i++)
		expect_wc(cq, i, IBV_WC_SUCCESS);
	for (uint64_t i = 3; i < 7; i++)
		push(cq, i, IBV_WC_SUCCESS, false);
	assert_int_equal(cq_resize(cq, 3), -EINVAL);
	assert_int_equal(cq_resize(cq, 0), -EINVAL);
	assert_int_equal(cq_resize(cq, LIMIT_CQE + 1), -EINVAL);
	assert_int_equal(cq->ib.cqe, 4);
	assert_int_equal(cq_resize(cq, 9), 0);
	assert_int_equal(cq->ib.cqe, 9);
	for (uint64_t i = 7; i < 12; i++)
		push(cq, i, IBV_WC_SUCCESS, false);
	for (; next < 10; next++)
		expect_wc(cq, next, IBV_WC_SUCCESS);
	assert_int_equal(cq_resize(cq, 2), 0);
	for (; next < 12; next++)
		expect_wc(cq, next, IBV_WC_SUCCESS);
	expect_empty(cq);
	assert_int_equal(cq_destroy(cq), 0);
}

static bool readable(struct channel *channel)
{
	struct pollfd ready = { .fd = channel->ib.fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

static void take_event(struct channel *channel, struct cq *cq)
{
	struct cq *taken = NULL;

	assert_true(readable(channel));
	assert_int_equal(channel_take(channel, &taken), 0);
	assert_ptr_equal(taken, cq);
	acknowledge(&cq->ib.mutex, &cq->ib.cond, &cq->ib.comp_events_completed, 1);
}

static void test_arming(void **state)
{
	/* armed for any, for solicited; pushed solicited, with error; an event comes */
	static const struct {
		bool any, only_solicited, solicited, error, event;
	} rows[] = {
		{ false, false, true, true, false }, { true, false, false, false, true },
		{ true, false, true, false, true },  { false, true, false, false, false },
		{ false, true, true, false, true },  { false, true, false, true, true },
		{ true, true, false, false, true },
	};
	struct channel *channel;
	struct world *world = *state;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cq *cq = world_cq(world, 8, channel);

		push(cq, 0, IBV_WC_SUCCESS, true); /* what came before the arming makes no event */
		if (rows[i].any)
			cq_arm(cq, false);
		if (rows[i].only_solicited)
			cq_arm(cq, true);
		assert_false(readable(channel));
		push(cq, 1, rows[i].error ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS, rows[i].solicited);
		assert_int_equal(readable(channel), rows[i].event);
		if (rows[i].event)
			take_event(channel, cq);
		push(cq, 2, IBV_WC_SUCCESS, true); /* one event for an arming */
		if (rows[i].event)
			assert_false(readable(channel));
		assert_int_equal(channel_destroy(channel), -EBUSY);
		assert_int_equal(cq_destroy(cq), 0);
	}
	assert_int_equal(channel_destroy(channel), 0);
}

/* One of several is solicited, at any place. */
static void test_arming_several(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct cqe cqes[32];

	for (uint64_t i = 0; i < 32; i++)
		cqes[i] = (struct cqe){ .wr_id = i, .rq = &rq, .kind = CQE_RECEIVE };
	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	for (uint32_t place = 0; place <= 32; place++) { /* the last: none */
		struct cq *cq = world_cq(world, 32, channel);

		cq_arm(cq, true);
		cq_push_all(cq, cqes, 32, place < 32 ? 1u << place : 0);
		assert_int_equal(readable(channel), place < 32);
		if (place < 32)
			take_event(channel, cq);
		for (uint64_t i = 0; i < 32; i++)
			expect_wc(cq, i, IBV_WC_SUCCESS);
		assert_int_equal(cq_destroy(cq), 0);
	}
	assert_int_equal(channel_destroy(channel), 0);
}

/* What came between a poll that found nothing and the arming, and had no event of its own. */
static void test_arming_late(void **state)
{
	static const struct {
		bool polled, announced, solicited, only_solicited, event;
	} rows[] = {
		{ true, false, false, false, true },   { true, false, true, false, true },
		{ true, false, true, true, true },     { true, false, false, true, false },
		{ true, true, false, false, false },   { false, false, true, false, false },
		{ false, false, false, false, false },
	};
	struct channel *channel;
	struct ibv_wc wc;
	struct world *world = *state;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cq *cq = world_cq(world, 8, channel);

		push(cq, 0, IBV_WC_SUCCESS, true);
		assert_int_equal(cq_pop(cq, 1, &wc), 1);
		if (rows[i].polled)
			assert_int_equal(cq_pop(cq, 1, &wc), 0);
		if (rows[i].announced)
			cq_arm(cq, false);
		push(cq, 1, IBV_WC_SUCCESS, rows[i].solicited);
		if (rows[i].announced)
			take_event(channel, cq);
		cq_arm(cq, rows[i].only_solicited);
		assert_int_equal(readable(channel), rows[i].event);
		assert_int_equal(cq_destroy(cq), 0);
	}
	assert_int_equal(channel_destroy(channel), 0);
}

/* A poll that returns fewer than it was asked for says that the CQ is empty, too. */
static void test_arming_late_after_a_part(void **state)
{
	static const struct {
		int asked;
		bool event;
	} rows[] = { { 2, true }, { 1, false }, { 0, false } };
	struct world *world = *state;
	struct channel *channel;
	struct ibv_wc wc[2];

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cq *cq = world_cq(world, 8, channel);

		if (rows[i].asked)
			push(cq, 0, IBV_WC_SUCCESS, false);
		assert_int_equal(cq_pop(cq, rows[i].asked, wc), rows[i].asked ? 1 : 0);
		push(cq, 1, IBV_WC_SUCCESS, false);
		assert_int_equal(cq_pop(cq, 0, wc), 0); /* which says nothing */
		cq_arm(cq, false);
		assert_int_equal(readable(channel), rows[i].event);
		assert_int_equal(cq_destroy(cq), 0);
	}
	assert_int_equal(channel_destroy(channel), 0);
}

/* The event of the first one tells of all. */
static void test_burst_gives_one_event(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct ibv_wc wc;
	struct cq *cq;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	cq = world_cq(world, 8, channel);
	assert_int_equal(cq_pop(cq, 1, &wc), 0);
	cq_arm(cq, false);
	push(cq, 0, IBV_WC_SUCCESS, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	take_event(channel, cq);
	cq_arm(cq, false);
	assert_false(readable(channel));
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(channel_destroy(channel), 0);
}

static void test_destroy_withdraws_events(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct cq *cqs[2], *taken;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	for (int i = 0; i < 2; i++) {
		cqs[i] = world_cq(world, 8, channel);
		for (int event = 0; event < 2; event++) {
			cq_arm(cqs[i], false);
			push(cqs[i], 1, IBV_WC_SUCCESS, false);
		}
	}
	assert_int_equal(cq_destroy(cqs[0]), 0);
	take_event(channel, cqs[1]);
	take_event(channel, cqs[1]);
	assert_false(readable(channel));
	assert_int_equal(fcntl(channel->ib.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(channel_take(channel, &taken), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(cq_destroy(cqs[1]), 0);
	assert_int_equal(channel_destroy(channel), 0);
}

/* base/sleeper.h: what the sleeper itself makes in its look, the descriptor does not count. */
static void test_sleeper_takes_its_own_event(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct cq *cq;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	cq = world_cq(world, 8, channel);
	assert_true(channel_sleep_begin(channel));
	assert_null(channel_sleep_end(channel));
	assert_true(channel_sleep_begin(channel));
	channel_look_begin(channel);
	for (int event = 0; event < 2; event++) { /* the second one is for others */
		cq_arm(cq, false);
		push(cq, 1, IBV_WC_SUCCESS, false);
		assert_int_equal(readable(channel), event == 1);
	}
	assert_ptr_equal(channel_sleep_end(channel), cq);
	assert_false(channel_sleep_begin(channel)); /* there is an event */
	take_event(channel, cq);
	acknowledge(&cq->ib.mutex, &cq->ib.cond, &cq->ib.comp_events_completed, 1);

	assert_true(channel_sleep_begin(channel));
	channel_look_begin(channel);
	cq_arm(cq, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	assert_int_equal(cq_destroy(cq), 0);
	assert_null(channel_sleep_end(channel)); /* the event was dropped */

	assert_int_equal(fcntl(channel->ib.fd, F_SETFL, O_NONBLOCK), 0);
	assert_false(channel_sleep_begin(channel));
	assert_int_equal(channel_destroy(channel), 0);
}

/* The sleeper may have left by a signal handler's longjmp. */
static void test_others_events_are_for_all(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct cq *cq;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	cq = world_cq(world, 8, channel);
	assert_true(channel_sleep_begin(channel));
	cq_arm(cq, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	assert_true(readable(channel));
	assert_null(channel_sleep_end(channel));
	take_event(channel, cq);

	assert_true(channel_sleep_begin(channel));
	channel_look_begin(channel);
	channel_look_left();
	cq_arm(cq, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	take_event(channel, cq);

	assert_true(channel_sleep_begin(channel));
	channel_look_begin(channel);
	cq_arm(cq, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	channel_look_left();
	assert_false(readable(channel));
	assert_false(channel_sleep_begin(channel)); /* finds what it had left */
	take_event(channel, cq);
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(channel_destroy(channel), 0);
}

static void *acknowledge_later(void *arg)
{
	struct cq *cq = arg;

	usleep(20000);
	acknowledge(&cq->ib.mutex, &cq->ib.cond, &cq->ib.comp_events_completed, 1);
	return NULL;
}

static void test_destroy_waits_for_acknowledgement(void **state)
{
	struct world *world = *state;
	struct channel *channel;
	struct cq *cq, *taken;
	pthread_t thread;

	assert_int_equal(channel_create(&world->context->verbs.context, &channel), 0);
	cq = world_cq(world, 8, channel);
	cq_arm(cq, false);
	push(cq, 1, IBV_WC_SUCCESS, false);
	assert_int_equal(channel_take(channel, &taken), 0);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, cq), 0);
	assert_int_equal(cq_destroy(cq), 0);
	pthread_join(thread, NULL);
	assert_int_equal(channel_destroy(channel), 0);
}

static void test_purge(void **state)
{
	struct cq *cq = world_cq(*state, 8, NULL);
	struct qp *qps[2] = { (struct qp *)&qps[0], (struct qp *)&qps[1] };

	for (uint64_t i = 0; i < 8; i++) {
		struct cqe cqe = { .wr_id = i, .qp = qps[i % 2], .rq = &rq, .kind = CQE_RECEIVE };

		cq_push(cq, &cqe, false);
	}
	cq_purge(cq, qps[0]);
	for (uint64_t i = 1; i < 8; i += 2)
		expect_wc(cq, i, IBV_WC_SUCCESS);
	expect_empty(cq);
	assert_int_equal(cq_destroy(cq), 0);
}

static void test_timestamps(void **state)
{
	struct world *world = *state;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	uint64_t first;
	struct cq *cq;

	assert_int_equal(cq_create(world->context, &attr, &cq), 0);
	push(cq, 1, IBV_WC_SUCCESS, false);
	push(cq, 2, IBV_WC_SUCCESS, false);
	assert_true(cq_pop_current(cq));
	first = cq->current.timestamp_ns;
	assert_int_not_equal(first, 0);
	assert_true(cq_pop_current(cq));
	assert_true(cq->current.timestamp_ns >= first);
	assert_false(cq_pop_current(cq));
	assert_int_equal(cq_destroy(cq), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_order_over_the_end),
		TEST(test_in_order_while_the_ring_grows),
		TEST(test_pages_of_a_large_cq),
		TEST(test_limits),
		TEST(test_places_are_free_once_polled),
		TEST(test_overrun),
		TEST(test_overrun_event_vanishes_with_the_cq),
		TEST(test_ignored_overrun),
		TEST(test_resize),
		TEST(test_arming),
		TEST(test_arming_several),
		TEST(test_arming_late),
		TEST(test_arming_late_after_a_part),
		TEST(test_burst_gives_one_event),
		TEST(test_destroy_withdraws_events),
		TEST(test_sleeper_takes_its_own_event),
		TEST(test_others_events_are_for_all),
		TEST(test_destroy_waits_for_acknowledgement),
		TEST(test_purge),
		TEST(test_timestamps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
