/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When a thread that polls gets the poll lease. All other modules are replaced at link time
 * (--wrap) and do nothing.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/hot_links.h"
#include "adapter/poll_lease.h"
#include "adapter/ports.h"
#include "adapter/progress.h"
#include "adapter/wakeup.h"
#include "base/sleeper.h"
#include "memory/hold.h"
#include "object/channel.h"
#include "object/qp.h"
#include "roce/roce.h"

static unsigned leases, looks, yields, looks_at_yield, looks_at_flush;
static int packets; /* that each look at the ports finds */

bool __wrap_wakeup_on_polling(uint64_t now);
bool __wrap_wakeup_on_polling(uint64_t now)
{
	leases++;
	return false;
}

void __wrap_wakeup_on_arm(void);
void __wrap_wakeup_on_arm(void)
{
}

bool __wrap_hot_links_progress(void);
bool __wrap_hot_links_progress(void)
{
	looks++;
	return false;
}

int __wrap_ports_progress(uint64_t now, enum ports_look which);
int __wrap_ports_progress(uint64_t now, enum ports_look which)
{
	return packets;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	yields++;
	looks_at_yield = looks;
	return 0;
}

static bool owes;

bool __wrap_roce_owes(void);
bool __wrap_roce_owes(void)
{
	return owes;
}

void __wrap_roce_flush(void);
void __wrap_roce_flush(void)
{
	owes = false;
	looks_at_flush = looks;
}

static unsigned before_sleep, looks_at_all;

static void (*before_sleeping)(void);

void __wrap_hot_links_progress_last(void);
void __wrap_hot_links_progress_last(void)
{
	looks_at_all++;
	if (before_sleeping)
		before_sleeping();
}

void __wrap_hot_links_before_sleep(void);
void __wrap_hot_links_before_sleep(void)
{
	before_sleep++;
}

static int setup(void **state)
{
	progress_running = true;
	port_table_count = 0;
	adapter_on_arm();
	leases = looks = yields = 0;
	return 0;
}

static void poll_times(unsigned times)
{
	while (times--)
		adapter_progress();
}

static void a_thread_that_polls_on_gets_the_lease(void **state)
{
	poll_times(64);
	assert_int_equal(looks, 64 + yields);
	assert_int_equal(leases, 2);
}

/* An event, a request for the next one, a few polls until the CQ is empty: thousands of times. */
static void a_thread_that_waits_for_events_gets_none(void **state)
{
	for (int event = 0; event < 3000; event++) {
		adapter_on_arm();
		poll_times(1 + (unsigned)event % 5);
	}
	assert_int_equal(leases, 0);
	poll_times(32);
	assert_int_equal(leases, 1);
}

/* The same with ports: empty looks before a sleep do not make the thread a poller. */
static void a_thread_that_sleeps_between_polls_gets_none(void **state)
{
	const struct timespec sleep = { 0, 100000 };

	port_table_count = 1;
	for (int event = 0; event < 100; event++) {
		adapter_on_arm();
		adapter_progress();
		nanosleep(&sleep, NULL);
	}
	assert_int_equal(leases, 0);
}

static struct channel channel; /* that has an event */
static struct arena_header header;

static void nobody_ends(void)
{
}

static _Atomic uint32_t word;

static void begin_sleeps(void)
{
	channel.ib.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	sleeper_init(&word, nobody_ends);
	assert_int_equal(poll_lease_init(&header), 0);
}

static void sleep_once(void)
{
	struct cq *cq;

	assert_int_equal(adapter_sleep(&channel, &cq), 0);
	assert_null(cq);
}

static void end_sleeps(void)
{
	poll_lease_reset_after_fork();
	sleeper_reset_after_fork();
	close(channel.ib.fd);
}

/* Programs arm, then post, then sleep: what they have posted is not overlooked. */
static void a_thread_that_sleeps_tells_peers_that_may_not_look(void **state)
{
	begin_sleeps();
	before_sleep = 0;
	sleep_once();
	assert_int_equal(before_sleep, 1);
	end_sleeps();
}

/*
 * While the progress thread is away, what came before the peers saw this thread asleep has nobody
 * else to find it.
 */
static void a_thread_that_sleeps_looks_if_the_progress_thread_is_away(void **state)
{
	begin_sleeps();
	looks_at_all = 0;
	sleep_once();
	assert_int_equal(looks_at_all, 0);
	poll_lease_leave();
	assert_true(header.need_wakeup);
	sleep_once();
	assert_int_equal(looks_at_all, 1);
	poll_lease_on_awake();
	sleep_once();
	assert_int_equal(looks_at_all, 1);
	end_sleeps();
}

static unsigned stands;

void __wrap_hold_pause(void);
void __wrap_hold_pause(void)
{
	stands++;
}

static bool woken;

/* Wakes the thread, and the next time it may not sleep. */
static void wake(void)
{
	if (woken)
		fcntl(channel.ib.fd, F_SETFL, O_NONBLOCK);
	else
		sleeper_wake_other(&word);
	woken = true;
}

static void sleep_and_wake(void)
{
	fcntl(channel.ib.fd, F_SETFL, 0);
	woken = false;
	before_sleeping = wake;
	sleep_once();
	before_sleeping = NULL;
}

/* It would keep the builder's lock, for which other threads wait without standing. */
static void a_thread_that_builds_requests_does_not_stand(void **state)
{
	begin_sleeps();
	poll_lease_leave();
	list_init(&channel.pending);
	stands = 0;
	hold_wanted = 1;
	sleep_and_wake();
	assert_int_equal(stands, 1);
	qp_building = 1;
	sleep_and_wake();
	assert_int_equal(stands, 1);
	qp_building = 0;
	hold_wanted = 0;
	end_sleeps();
}

/* What an empty poll says is not as old as its yield was long. */
static void a_poll_that_yields_looks_again(void **state)
{
	for (unsigned polls = 0; yields < 5; polls++) {
		assert_true(polls < 100000000);
		adapter_progress();
		if (yields)
			assert_true(looks > looks_at_yield);
	}
}

/* Nor as its packets took to leave, which wake the peers. */
static void an_empty_poll_that_sends_looks_again(void **state)
{
	owes = true;
	assert_true(adapter_on_empty());
	assert_false(owes);
	assert_int_equal(looks, looks_at_flush + 1);
	assert_false(adapter_on_empty());
	assert_int_equal(looks, looks_at_flush + 1);
}

/* So does one whose look sent, as nobody holds the lease. */
static void an_empty_poll_whose_look_sent_looks_again(void **state)
{
	port_table_count = 1;
	packets = 1;
	adapter_progress();
	assert_int_equal(looks_at_flush, looks);
	packets = 0;
	assert_true(adapter_on_empty());
	assert_int_equal(looks, looks_at_flush + 1);
	assert_false(adapter_on_empty());
	assert_int_equal(looks, looks_at_flush + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_thread_that_polls_on_gets_the_lease, setup),
		cmocka_unit_test_setup(a_thread_that_waits_for_events_gets_none, setup),
		cmocka_unit_test_setup(a_thread_that_sleeps_between_polls_gets_none, setup),
		cmocka_unit_test_setup(a_poll_that_yields_looks_again, setup),
		cmocka_unit_test_setup(an_empty_poll_that_sends_looks_again, setup),
		cmocka_unit_test_setup(an_empty_poll_whose_look_sent_looks_again, setup),
		cmocka_unit_test_setup(a_thread_that_sleeps_tells_peers_that_may_not_look, setup),
		cmocka_unit_test_setup(a_thread_that_sleeps_looks_if_the_progress_thread_is_away,
				       setup),
		cmocka_unit_test_setup(a_thread_that_builds_requests_does_not_stand, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
