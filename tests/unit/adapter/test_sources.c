/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of sources: watched descriptors, polls, deadlines, and descriptors of packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/sources.h"
#include "adapter/wakeup.h"
#include "base/clock.h"

static int epoll, wake_fd, daemon_fd, ports_fd, roce_fd;
static uint64_t notices_due, migration_due;
static bool interfaces_changed, all_follow;
static unsigned follows, follows_of_changes;
static unsigned notices_polls, interface_polls, interface_starts;

int __wrap_notices_fd(void);
int __wrap_notices_fd(void)
{
	return daemon_fd;
}

int __wrap_port_table_epoll(void);
int __wrap_port_table_epoll(void)
{
	return ports_fd;
}

int __wrap_timers_roce_fd(void);
int __wrap_timers_roce_fd(void)
{
	return roce_fd;
}

void __wrap_watch_start(void);
void __wrap_watch_start(void)
{
	interface_starts++;
}

int __wrap_watch_fd(void);
int __wrap_watch_fd(void)
{
	assert_int_equal(interface_starts, 1); /* the descriptor is there only then */
	return -1;
}

void __wrap_notices_take(void);
void __wrap_notices_take(void)
{
	notices_polls++;
}

uint64_t __wrap_notices_due_ns(void);
uint64_t __wrap_notices_due_ns(void)
{
	return notices_due;
}

uint64_t __wrap_migrate_run(uint64_t now_ns);
uint64_t __wrap_migrate_run(uint64_t now_ns)
{
	return migration_due;
}

bool __wrap_port_events_poll(uint64_t now);
bool __wrap_port_events_poll(uint64_t now)
{
	interface_polls++;
	return interfaces_changed;
}

bool __wrap_ports_follow_interfaces(bool changed);
bool __wrap_ports_follow_interfaces(bool changed)
{
	follows_of_changes += changed;
	follows++;
	return all_follow;
}

static int start(void **state)
{
	int *fds[] = { &wake_fd, &daemon_fd, &ports_fd, &roce_fd };

	for (int i = 0; i < 4; i++)
		*fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	wakeup_init(wake_fd);
	sources_watch(epoll);
	return 0;
}

static int setup(void **state)
{
	notices_due = migration_due = SOURCES_NEVER;
	notices_polls = interface_polls = 0;
	return 0;
}

static int told(struct epoll_event *events)
{
	return epoll_wait(epoll, events, 8, 0);
}

static void each_descriptor_is_watched_and_drained(void **state)
{
	struct epoll_event events[8];

	assert_int_equal(told(events), 0);
	eventfd_write(wake_fd, 1);
	assert_int_equal(told(events), 1);
	assert_int_equal(events[0].data.fd, wake_fd);
	assert_false(sources_are_packets(events, 1));
	sources_on_ready(wake_fd);
	assert_int_equal(told(events), 0);
	/* a descriptor without `drain` stays readable until its poll function reads it */
	eventfd_write(daemon_fd, 1);
	assert_int_equal(told(events), 1);
	sources_on_ready(daemon_fd);
	assert_int_equal(told(events), 1);
	assert_int_equal(read(daemon_fd, &(uint64_t){ 0 }, 8), 8);
}

/* epoll reports the ports once for each arrival. */
static void packets_are_told_from_the_rest(void **state)
{
	struct epoll_event events[8] = { 0 };

	assert_false(sources_are_packets(events, 0));
	eventfd_write(ports_fd, 1);
	assert_int_equal(told(events), 1);
	assert_true(sources_are_packets(events, 1));
	assert_int_equal(told(events), 0);
	events[1].data.fd = daemon_fd;
	assert_false(sources_are_packets(events, 2));
	events[1].data.fd = roce_fd;
	assert_true(sources_are_packets(events, 2));
	events[1].data.fd = 12345; /* verbatimd's next socket */
	assert_false(sources_are_packets(events, 2));
}

static void the_first_deadline_counts(void **state)
{
	sources_poll();
	assert_true(sources_deadline_ns() == SOURCES_NEVER);
	notices_due = 7000;
	assert_true(sources_deadline_ns() == 7000);
	migration_due = 5000;
	assert_false(sources_poll());
	assert_true(sources_deadline_ns() == 5000);
	notices_due = 3000;
	assert_true(sources_deadline_ns() == 3000);
}

static void migration_that_is_due_now_is_more_work(void **state)
{
	migration_due = 0;
	assert_true(sources_poll());
	assert_int_equal(notices_polls, 1);
	assert_int_equal(interface_polls, 1); /* other sources still get their turn */
}

/* A group that cannot be joined anew is tried again, a second later. */
static void what_does_not_follow_an_interface_is_tried_again(void **state)
{
	uint64_t due;

	interfaces_changed = true;
	all_follow = false;
	sources_poll();
	assert_int_equal(follows, 1);
	due = sources_deadline_ns();
	assert_true(due > clock_now_ns() && due <= clock_now_ns() + 1000000000ull);
	interfaces_changed = false;
	all_follow = true;
	sources_poll();
	assert_int_equal(follows, 1);
	while (clock_now_ns() < due)
		usleep(10000);
	sources_poll();
	assert_int_equal(follows, 2);
	assert_int_equal(follows_of_changes, 1);
	assert_true(sources_deadline_ns() == SOURCES_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_descriptor_is_watched_and_drained, setup),
		cmocka_unit_test_setup(packets_are_told_from_the_rest, setup),
		cmocka_unit_test_setup(the_first_deadline_counts, setup),
		cmocka_unit_test_setup(migration_that_is_due_now_is_more_work, setup),
		cmocka_unit_test_setup(what_does_not_follow_an_interface_is_tried_again, setup),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
