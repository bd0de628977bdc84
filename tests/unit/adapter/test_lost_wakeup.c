/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real progress thread and ports, real sockets, and threads that poll, stop polling, arm and
 * sleep at random: the progress thread must not sleep while a packet waits. Takes a seed as its
 * argument; prints it.
 *
 * In each round packets are sent while the threads run. At some moment all of them stop, wherever
 * they are, and do not come back: then the progress thread has to take the remaining packets. No
 * packet is sent twice, so a missed one stays in its socket.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "../udp/net.h"
#include "adapter/progress_thread.h"
#include "adapter/wakeup.h"
#include "adapter/listening.h"
#include "adapter/poll_lease.h"
#include "rig.h"

#define POLLERS	       3
#define ROUNDS	       150
#define BURSTS_MAX     6
#define SLEPT_OVER_NS  5000000000ull
#define POLLS_PER_LOOK 32
#define AWAY_US_MAX    3000 /* some leases */
#define HELD_UP_US     2500 /* without a processor, for longer than a lease */

static uint64_t seed;
static struct arena_header header;
static int wake_fd, daemon_fd;
static struct wire_port *from, *to;
static uint8_t to_gid[WIRE_GID_BYTES];

static _Atomic bool quiet, done;
static _Atomic unsigned polling; /* threads that have not stopped */
static _Thread_local uint64_t *dice;

int __wrap_ctl_fd(struct ctl_client *c);
int __wrap_ctl_fd(struct ctl_client *c)
{
	return daemon_fd;
}

int __wrap_ctl_return_ports(struct ctl_client *c);
int __wrap_ctl_return_ports(struct ctl_client *c)
{
	return 0;
}

int __wrap_ctl_next_notice(struct ctl_client *c, struct ctl_notice *out);
int __wrap_ctl_next_notice(struct ctl_client *c, struct ctl_notice *out)
{
	return 0;
}

/* A thread that sets a timer may lose its processor right before or after. */
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	uint64_t chance = dice ? net_random(dice) % 64 : 64;
	int rc;

	if (chance == 0)
		rig_sleep_us(HELD_UP_US);
	rc = __real_timerfd_settime(fd, flags, new, old);
	if (chance == 1)
		rig_sleep_us(HELD_UP_US);
	return rc;
}

/* As adapter_progress does it. */
static void poll_once(unsigned polls)
{
	uint64_t now = rig_now_ns();
	bool all = polls % POLLS_PER_LOOK == 0;
	int got = ports_progress(now, all ? PORTS_ALL : PORTS_BUSY_ONES);

	listening_on_look(now, got > 0);
	if (all || poll_lease_is_held())
		wakeup_on_polling(now);
}

static void poll_for_a_while(uint64_t *random)
{
	unsigned polls = (unsigned)(net_random(random) % (net_random(random) % 4 ? 400 : 20000));

	atomic_fetch_add(&polling, 1);
	for (unsigned i = 1; i < polls && !quiet; i++)
		poll_once(i);
	atomic_fetch_sub(&polling, 1);
}

static void *poll_now_and_then(void *arg)
{
	uint64_t random = seed * 31 + (uintptr_t)arg;

	dice = &random;
	while (!done) {
		if (quiet) {
			rig_sleep_us(100);
			continue;
		}
		poll_for_a_while(&random);
		if (net_random(&random) % 8 == 0)
			wakeup_on_arm();
		rig_sleep_us((unsigned)(net_random(&random) % AWAY_US_MAX));
	}
	return NULL;
}

static uint32_t send_some(uint64_t *random)
{
	uint32_t sent = 0;

	for (uint64_t bursts = net_random(random) % BURSTS_MAX; bursts; bursts--) {
		sent += rig_send(from, to_gid, 1 + (unsigned)(net_random(random) % WIRE_BURST));
		if (net_random(random) % 2)
			rig_sleep_us((unsigned)(net_random(random) % AWAY_US_MAX));
	}
	return sent;
}

static bool all_arrive(uint32_t sent)
{
	uint64_t end = rig_now_ns() + SLEPT_OVER_NS;

	while (rig_arrivals != sent) {
		if (rig_now_ns() > end)
			return false;
		rig_sleep_us(100);
	}
	return true;
}

static bool sleeps(void)
{
	uint64_t end = rig_now_ns() + SLEPT_OVER_NS;

	while (!header.need_wakeup || poll_lease_is_held()) {
		if (rig_now_ns() > end)
			return false;
		rig_sleep_us(100);
	}
	return true;
}

static void no_packet_is_slept_over(void **state)
{
	uint64_t random = seed;
	uint32_t sent = 0;
	pthread_t threads[POLLERS];

	for (uintptr_t i = 0; i < POLLERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, poll_now_and_then, (void *)i),
				 0);
	for (int round = 0; round < ROUNDS; round++) {
		quiet = false;
		sent += send_some(&random);
		quiet = true;
		sent += send_some(&random);
		if (!all_arrive(sent))
			fail_msg("seed %llu, round %d: %u of %u packets were taken",
				 (unsigned long long)seed, round, rig_arrivals, sent);
		while (polling)
			rig_sleep_us(100);
		if (!sleeps())
			fail_msg("seed %llu, round %d: nobody polls, and need_wakeup is not set",
				 (unsigned long long)seed, round);
	}
	done = true;
	for (int i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
}

static int start(void **state)
{
	uint8_t from_gid[WIRE_GID_BYTES];

	header.need_wakeup = true;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	daemon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(rig_setup(NULL), 0);
	rig_address(1, from_gid);
	rig_address(2, to_gid);
	assert_int_equal(progress_thread_start(NULL, &header, wake_fd), 0);
	assert_int_equal(port_open(from_gid, 0, "vrb_test", &from), 0);
	assert_int_equal(port_open(to_gid, 0, "vrb_test", &to), 0);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_packet_is_slept_over) };

	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : rig_now_ns();
	printf("seed %llu\n", (unsigned long long)seed);
	rig_init();
	rig_add_address(1);
	rig_add_address(2);
	return cmocka_run_group_tests(tests, start, NULL);
}
