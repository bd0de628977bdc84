/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP port 4791 outlives verbatimd: each process gets the packets of its slot, whichever processes
 * die in between.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ports_rig.h"

#include "../udp/net.h"

static atomic_bool time_stands;
static struct timespec stood_at;

static void lose_and_reconnect(struct worker *w)
{
	CHECK(ask(w, ORDER_LOSE) == 0);
	CHECK(ask(w, ORDER_RECONNECT) == 0);
}

static void test_daemon_killed(void **state)
{
	struct worker a[3];
	unsigned slots[3];
	uint64_t inode;

	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	inode = ask(&a[0], ORDER_INODE);
	for (int round = 0; round < 2; round++) {
		kill_daemon();
		check_steering(a, slots, 2);
		lose_and_reconnect(&a[0]);
		check_steering(a, slots, 2);
		lose_and_reconnect(&a[1]);
		check_steering(a, slots, 2);
		CHECK(ask(&a[0], ORDER_INODE) == inode);
	}
	/* the new daemon goes on where the old one ended */
	slots[2] = start(&a[2], true);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
}

/* A new process connects before the processes that have the port return. */
static void test_newcomer_waits(void **state)
{
	struct worker a[3];
	unsigned slots[3];

	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	kill_daemon();
	slots[2] = start(&a[2], false);
	CHECK(slots[2] != slots[0] && slots[2] != slots[1]);
	say(a[2].fd, ORDER_PORT);
	usleep(20000); /* the request waits for no longer than two seconds */
	lose_and_reconnect(&a[1]);
	CHECK(hear(a[2].fd) == 0);
	check_steering(a, slots, 3);
	lose_and_reconnect(&a[0]);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
}

static void test_newcomer_is_told_to_wait(void **state)
{
	struct worker a;
	struct ctl_client *c;
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES], pid[32];
	int fd;

	this_address(gid);
	start(&a, true);
	kill_daemon();
	c = join();
	CHECK(get_port(c, gid, why) == -EAGAIN);
	snprintf(pid, sizeof(pid), "process %d ", (int)a.pid);
	CHECK(strstr(why, pid) != NULL);
	/* that one dies, and its port with it */
	worker_kill(&a);
	fd = open_port(c, gid);
	close(fd);
	ctl_close(c);
}

static void *reconnect_later(void *client)
{
	struct ctl_notice notice;
	char why[CTL_WHY_BYTES];

	while (ctl_next_notice(client, &notice) != -ENOTCONN)
		usleep(1000);
	usleep(20000);
	CHECK(!ctl_reconnect(client, CTL_CONNECT_MS, why, sizeof(why)));
	return NULL;
}

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_MONOTONIC || !time_stands)
		return __real_clock_gettime(clock, time);
	*time = stood_at;
	return 0;
}

/* A program asks in the moment between two daemons: it does not notice. */
static void test_asked_between_daemons(void **state)
{
	struct ctl_client *c = join();
	uint8_t gid[CTL_GID_BYTES];
	char why[CTL_WHY_BYTES];
	pthread_t waker;

	this_address(gid);
	kill_daemon();
	/* The request gives up after 500 ms: until then the next daemon may not have begun. */
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &stood_at));
	time_stands = true;
	CHECK(!pthread_create(&waker, NULL, reconnect_later, c));
	close(open_port(c, gid));
	pthread_join(waker, NULL);
	time_stands = false;
	/* and if no process reconnects, the request fails */
	kill_daemon();
	CHECK(get_port(c, gid, why) == -ENOTCONN);
	ctl_close(c);
}

/* Daemon and process die; the slot's next process gets the socket, without stale packets. */
static void test_both_killed(void **state)
{
	struct worker a[2];
	unsigned slots[2];
	uint8_t gid[CTL_GID_BYTES];

	this_address(gid);
	slots[0] = start(&a[0], true);
	slots[1] = start(&a[1], true);
	kill_daemon();
	worker_kill(&a[0]);
	send_marks(gid, slots[0], 1, 16);
	check_steering(a + 1, slots + 1, 1);
	lose_and_reconnect(&a[1]);
	CHECK(start(&a[0], true) == slots[0]);
	CHECK(ask(&a[0], ORDER_RECEIVE) == 0);
	check_steering(a, slots, 2);
	worker_end(&a[0]);
	worker_end(&a[1]);
}

/* The last process with a higher slot keeps the order of those before it. */
static void test_order_outlives_the_owners(void **state)
{
	struct worker a[3];
	unsigned slots[3];

	for (int i = 0; i < 3; i++)
		slots[i] = start(&a[i], true);
	kill_daemon();
	worker_kill(&a[0]);
	worker_kill(&a[2]);
	check_steering(a + 1, slots + 1, 1);
	lose_and_reconnect(&a[1]);
	CHECK(start(&a[0], true) == slots[0]);
	CHECK(start(&a[2], true) == slots[2]);
	check_steering(a, slots, 3);
	for (int i = 0; i < 3; i++)
		worker_end(&a[i]);
}

int main(void)
{
#define port_test(f) cmocka_unit_test_setup_teardown(f, ports_setup, harness_teardown)
	const struct CMUnitTest tests[] = {
		port_test(test_daemon_killed),
		port_test(test_newcomer_waits),
		port_test(test_newcomer_is_told_to_wait),
		port_test(test_asked_between_daemons),
		port_test(test_both_killed),
		port_test(test_order_outlives_the_owners),
	};

	net_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
