/* SPDX-License-Identifier: BSD-2-Clause */
/* When packets wake the progress thread, and that it misses none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "adapter/listening.h"
#include "adapter/wakeup.h"
#include "base/clock.h"
#include "world.h"

/* Pollers found so much that listening stops; when they are gone it begins again. */
static void takes_packets_after_pollers_that_found_all(void **state)
{
	for (int i = 0; i < 20; i++) {
		for (int polls = 0; polls < 300; polls++)
			listening_on_look(clock_now_ns(), true);
		wakeup_on_polling(clock_now_ns());
		world_arrive();
		assert_true(world_waits_for(world_is_empty));
		assert_true(world_waits_for(world_is_asleep));
		world_arrive();
		assert_true(world_waits_for(world_is_empty));
	}
}

static bool was_tried_again(void)
{
	return world.listens >= 3;
}

/* The progress thread listens again, and no longer tries to. */
static bool is_heard_again(void)
{
	world.listens = 0;
	world_sleep_ms(50);
	return world.listens == 0;
}

/* No descriptor tells of packets: the progress thread looks by itself, and tries again. */
static void takes_packets_of_ports_it_cannot_listen_to(void **state)
{
	world.ports_are_deaf = true;
	world.listens = 0;
	/* this thread may be preempted, and lose the lease, before it stops listening */
	for (int i = 0; !world.listens && i < 1000; i++) {
		for (int polls = 0; polls < 300; polls++)
			listening_on_look(clock_now_ns(), true);
		wakeup_on_polling(clock_now_ns());
	}
	assert_true(world_waits_for(world_is_asleep));
	for (int i = 0; i < 20; i++) {
		world.packets++;
		assert_true(world_waits_for(world_is_empty));
	}
	world.listens = 0;
	assert_true(world_waits_for(was_tried_again));
	world.ports_are_deaf = false;
	assert_true(world_waits_for(is_heard_again));
	world_arrive();
	assert_true(world_waits_for(world_is_empty));
}

static unsigned links_before;

static bool links_had_a_look(void)
{
	return world.link_looks != links_before;
}

static bool takes_alone(void)
{
	return world.taken_alone > 100;
}

static bool listens_again(void)
{
	return world.hears;
}

static void begin_stream(void)
{
	world.taken_alone = 0;
	world.stream = true;
	eventfd_write(world.packets_fd, 1);
	assert_true(world_waits_for(takes_alone));
}

/* The packets of a stream wake no thread; the first one after it does. */
static void a_stream_wakes_no_thread(void **state)
{
	for (int i = 0; i < 20; i++) {
		begin_stream();
		world.stream = false;
		assert_true(world_waits_for(world_is_asleep));
		assert_true(world_waits_for(listens_again));
		world_arrive();
		assert_true(world_waits_for(world_is_empty));
	}
}

static bool came_late_and_is_taken(void)
{
	return !world.comes_late && world.packets == 0;
}

/* A packet comes after the last look of the progress thread, before it listens. */
static void the_end_of_a_stream_is_not_lost(void **state)
{
	for (int i = 0; i < 20; i++) {
		world.comes_late = true;
		/* after a preemption the progress thread may listen at that moment: tries again */
		for (int tries = 0; world.comes_late && tries < 100; tries++) {
			begin_stream();
			world.stream = false;
			assert_true(world_waits_for(listens_again));
		}
		assert_true(world_waits_for(came_late_and_is_taken));
	}
}

static bool nobody_is_busy(void)
{
	return world.busy == 0;
}

/*
 * The progress thread is at the port all the time, so it meets even a thread that polls once. That
 * gets no lease.
 */
static void a_stream_makes_no_thread_a_poller(void **state)
{
	begin_stream();
	world.lent = false;
	for (int i = 0; i < 20; i++) {
		world.busy = 3;
		assert_true(world_waits_for(nobody_is_busy));
	}
	assert_true(world_waits_for(takes_alone));
	assert_false(world.lent);
}

/* Other events are no stream: the progress thread sleeps until epoll tells of them. */
static void calls_of_others_are_no_stream(void **state)
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	/* so that the stream of the last test has ended */
	links_before = world.link_looks;
	eventfd_write(world.wake_fd, 1);
	assert_true(world_waits_for(links_had_a_look));
	assert_true(world_waits_for(listens_again));
	world.listens = 0;
	for (int i = 0; i < 1000; i++) {
		links_before = world.link_looks;
		eventfd_write(world.wake_fd, 1);
		while (!links_had_a_look() && clock_now_ns() < end)
			;
	}
	assert_int_equal(world.listens, 0);
}

/* A thread polls, and may stop: packets wake the progress thread until it has the lease. */
static void a_stream_is_listened_to_beside_pollers(void **state)
{
	begin_stream();
	wakeup_on_polling(clock_now_ns() +
			  /* so long is the lease */
			  PATIENCE_MS * 1000000ull);
	assert_true(world_waits_for(listens_again));
	world.taken_alone = 0;
	world_sleep_ms(20);
	assert_in_range(world.taken_alone, 0, 1); /* one look may have begun before */
	wakeup_on_arm();
	assert_true(world_waits_for(takes_alone));
}

static void a_stream_that_cannot_be_listened_to_at_its_end(void **state)
{
	begin_stream();
	world.ports_are_deaf = true;
	world.taken_alone = 0;
	assert_true(world_waits_for(takes_alone)); /* it cannot have begun to listen meanwhile */
	world.stream = false;
	assert_true(world_waits_for(world_is_asleep));
	for (int i = 0; i < 20; i++) {
		world.packets++;
		assert_true(world_waits_for(world_is_empty));
	}
	world.ports_are_deaf = false;
	assert_true(world_waits_for(listens_again));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(takes_packets_after_pollers_that_found_all),
		TEST(takes_packets_of_ports_it_cannot_listen_to),
		TEST(a_stream_wakes_no_thread),
		TEST(the_end_of_a_stream_is_not_lost),
		TEST(a_stream_makes_no_thread_a_poller),
		TEST(calls_of_others_are_no_stream),
		TEST(a_stream_is_listened_to_beside_pollers),
		TEST(a_stream_that_cannot_be_listened_to_at_its_end),
	};

	return cmocka_run_group_tests(tests, world_start, NULL);
}
