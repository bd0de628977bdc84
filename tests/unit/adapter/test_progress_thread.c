/* SPDX-License-Identifier: BSD-2-Clause */
/* Every source gets its turn, whatever the others do. */
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

static void takes_packets_while_no_thread_polls(void **state)
{
	for (int i = 0; i < 100; i++) {
		world_arrive();
		if (i % 7 == 0)
			world_arrive();
		assert_true(world_waits_for(world_is_empty));
	}
}

static unsigned links_before, notices_before;

static bool links_and_notices_had_a_look(void)
{
	return world.link_looks > links_before + 2 && world.notice_looks > notices_before + 2;
}

static bool retry_was_run(void)
{
	return world.retries > 0;
}

/* An endless sender delays no other source. */
static void packets_without_end_starve_no_source(void **state)
{
	links_before = world.link_looks;
	notices_before = world.notice_looks;
	world.endless = true;
	eventfd_write(world.packets_fd, 1);
	assert_true(world_waits_for(links_and_notices_had_a_look));
	world.retries = 0;
	world.retry_due = clock_now_ns();
	assert_true(world_waits_for(retry_was_run));
}

/* Nor does one whose packets take long to carry out: a turn is counted by the clock. */
static void long_looks_starve_no_source(void **state)
{
	world.look_ns = 200000;
	world.endless = true;
	links_before = world.link_looks;
	notices_before = world.notice_looks;
	eventfd_write(world.packets_fd, 1);
	assert_true(world_waits_for(links_and_notices_had_a_look));
	links_before = world.link_looks;
	notices_before = world.notice_looks;
	assert_true(world_waits_for(links_and_notices_had_a_look));
	/* counted in this order: the thread goes on */
	notices_before = world.notice_looks - notices_before;
	assert_in_range((world.link_looks - links_before) / notices_before, 0, 40);
}

static bool links_had_a_look(void)
{
	return world.link_looks != links_before;
}

/* Woken while a thread polls, it leaves the links to that thread, however busy they are. */
static void leaves_links_to_threads_that_poll(void **state)
{
	world.links_busy = true;
	for (int i = 0; i < 20; i++) {
		wakeup_on_polling(clock_now_ns() +
				  /* so long is the lease */
				  PATIENCE_MS * 1000000ull);
		links_before = world.link_looks;
		eventfd_write(world.wake_fd, 1);
		assert_true(world_waits_for(links_had_a_look));
		world_sleep_ms(2); /* enough for thousands of looks */
		assert_in_range(world.link_looks - links_before, 1, 3);
	}
	links_before = world.link_looks + 1000;
	notices_before = world.notice_looks;
	wakeup_on_arm();
	assert_true(world_waits_for(links_and_notices_had_a_look));
}

/* The thread that holds a link's lock may need this processor, whatever the priorities are. */
static void waits_for_a_thread_at_a_link_without_spinning(void **state)
{
	uint64_t begin_ns;
	unsigned looks;

	world.links_are_held = true;
	links_before = world.link_looks;
	notices_before = world.notice_looks;
	eventfd_write(world.wake_fd, 1);
	assert_true(world_waits_for(links_and_notices_had_a_look));
	begin_ns = clock_now_ns(); /* the sleep may last longer */
	links_before = world.link_looks;
	notices_before = world.notice_looks;
	world_sleep_ms(100);
	looks = world.link_looks - links_before;
	assert_true(looks <= 1000 + (clock_now_ns() - begin_ns) / 1000000 * 20);
	assert_true(world_waits_for(links_and_notices_had_a_look));
}

static bool takes_alone(void)
{
	return world.taken_alone > 100;
}

static void begin_stream(void)
{
	world.taken_alone = 0;
	world.stream = true;
	eventfd_write(world.packets_fd, 1);
	assert_true(world_waits_for(takes_alone));
}

static bool links_were_called(void)
{
	return world.looks_until_links != 0;
}

static bool links_and_notices_had_a_look_or_it_listens(void)
{
	return links_and_notices_had_a_look() || listening_is_on();
}

static void a_stream_starves_no_source(void **state)
{
	begin_stream();
	/* on a busy machine it may go back to sleep between packets: then no source waits */
	do {
		world.taken_alone = 0;
		assert_true(world_waits_for(takes_alone));
		links_before = world.link_looks;
		notices_before = world.notice_looks;
		assert_true(world_waits_for(links_and_notices_had_a_look_or_it_listens));
	} while (!links_and_notices_had_a_look());
	for (int i = 0; i < 20; i++) {
		world.taken_alone = 0;
		assert_true(world_waits_for(takes_alone));
		world.looks_until_links = 0;
		world.wakes = true;
		assert_true(world_waits_for(links_were_called));
		assert_in_range(world.looks_until_links, 1, 40);
	}
}

static bool steps_are_in_time(void)
{
	return world.steps_in_time > 10;
}

/* A stream is left for a source that is due, not only each 10 ms. */
static void a_stream_puts_off_no_source(void **state)
{
	world.steps_in_time = 0;
	world.migrates = true;
	begin_stream();
	assert_true(world_waits_for(steps_are_in_time));
}

static bool was_searched_for(void)
{
	return world.searches >= 5;
}

/*
 * The daemon hangs: packets are still taken before peers with usual time-outs (537 ms) give up, for
 * they wait for one search at most.
 */
static void a_daemon_that_hangs_stops_no_packets(void **state)
{
	world.searches = 0;
	world.longest_search_ms = 0;
	world.daemon_is_lost = true;
	eventfd_write(world.wake_fd, 1);
	assert_true(world_waits_for(was_searched_for));
	for (int i = 0; i < 4; i++) {
		unsigned begun;

		world_arrive();
		begun = world.searches;
		assert_true(world_waits_for(world_is_empty));
		assert_true(world.searches_at_empty <= begun + 1);
	}
	assert_in_range(world.longest_search_ms, 1, 450);
	world.daemon_is_lost = false;
}

static bool has_searched_enough(void)
{
	wakeup_on_polling(clock_now_ns()); /* a poller, which may sleep next */
	return world.searches >= 4;
}

/* Meanwhile peers wake a thread that sleeps for events, which looks at links. */
static void peers_wake_the_process_while_its_daemon_is_sought(void **state)
{
	world.searches = 0;
	world.searched_awake = false;
	world.daemon_is_lost = true;
	wakeup_send();
	assert_true(world_waits_for(has_searched_enough));
	world.daemon_is_lost = false;
	assert_false(world.searched_awake);
}

/* The same for a stream: packets are taken in the pauses between the searches. */
static void a_daemon_that_hangs_stops_no_stream(void **state)
{
	begin_stream();
	world.searches = 0;
	world.shortest_pause_ns = UINT64_MAX;
	world.daemon_is_lost = true;
	eventfd_write(world.wake_fd, 1);
	assert_true(world_waits_for(was_searched_for));
	assert_true(world.shortest_pause_ns > 150 * 1000000ull);
	world.taken_alone = 0;
	assert_true(world_waits_for(takes_alone));
	world.daemon_is_lost = false;
}

/* The search for the daemon goes on although only packets wake the thread. */
static void packets_put_off_no_search(void **state)
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	world.searches = 0;
	world.daemon_is_lost = true;
	eventfd_write(world.wake_fd, 1);
	while (!was_searched_for() && clock_now_ns() < end) {
		world_arrive();
		world_sleep_ms(20);
	}
	assert_true(was_searched_for());
	world.daemon_is_lost = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(takes_packets_while_no_thread_polls),
		TEST(packets_without_end_starve_no_source),
		TEST(long_looks_starve_no_source),
		TEST(leaves_links_to_threads_that_poll),
		TEST(waits_for_a_thread_at_a_link_without_spinning),
		TEST(a_stream_starves_no_source),
		TEST(a_stream_puts_off_no_source),
		TEST(a_daemon_that_hangs_stops_no_packets),
		TEST(peers_wake_the_process_while_its_daemon_is_sought),
		TEST(a_daemon_that_hangs_stops_no_stream),
		TEST(packets_put_off_no_search),
	};

	return cmocka_run_group_tests(tests, world_start, NULL);
}
