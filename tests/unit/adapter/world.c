/* SPDX-License-Identifier: BSD-2-Clause */
#include "world.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/hot_links.h"
#include "adapter/listening.h"
#include "adapter/poll_lease.h"
#include "adapter/ports.h"
#include "adapter/progress_thread.h"
#include "base/clock.h"
#include "shm/retry.h"
#include "shm/timer.h"

struct world world = { .hears = true, .retry_due = SHM_TIMER_NEVER };

static int daemon_fd;
static unsigned woken_at;
static uint64_t search_end_ns;
static pthread_t main_thread;

void world_sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	while (ms && nanosleep(&t, &t))
		;
}

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
	world.notice_looks++;
	return world.daemon_is_lost ? -ENOTCONN : 0;
}

int __wrap_ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len);
int __wrap_ctl_reconnect(struct ctl_client *c, int limit_ms, char *why, size_t why_len)
{
	uint64_t pause = clock_now_ns() - search_end_ns;

	if (world.searches++ && pause < world.shortest_pause_ns)
		world.shortest_pause_ns = pause;
	if (!world.daemon_is_lost)
		return 0;
	if (limit_ms > world.longest_search_ms)
		world.longest_search_ms = limit_ms;
	world.searched_awake |= !world.header.need_wakeup;
	world_sleep_ms((unsigned)limit_ms);
	world.searched_awake |= !world.header.need_wakeup;
	search_end_ns = clock_now_ns();
	return -ETIMEDOUT;
}

bool __wrap_peers_introduce_again(bool all);
bool __wrap_peers_introduce_again(bool all)
{
	return false;
}

void __wrap_group_attach_again(void);
void __wrap_group_attach_again(void)
{
}

void __wrap_watch_start(void);
void __wrap_watch_start(void)
{
}

uint64_t __wrap_migrate_run(uint64_t now);
uint64_t __wrap_migrate_run(uint64_t now)
{
	static uint64_t due = UINT64_MAX;

	if (!world.migrates)
		return due = UINT64_MAX;
	if (listening_takes_alone() && now >= due && now < due + 5000000)
		world.steps_in_time++;
	if (now >= due || due == UINT64_MAX)
		due = now + 1000000;
	return due;
}

void __wrap_peers_free_deferred(void);
void __wrap_peers_free_deferred(void)
{
}

int __wrap_hot_links_progress_all(void);
int __wrap_hot_links_progress_all(void)
{
	world.link_looks++;
	if (woken_at)
		world.looks_until_links = world.wire_looks - woken_at + 1;
	woken_at = 0;
	if (world.links_are_held)
		return -EBUSY;
	return world.links_busy;
}

/* As a look that copies what it finds. */
static int find_one(void)
{
	uint64_t end = clock_now_ns() + world.look_ns;

	while (clock_now_ns() < end)
		;
	return 1;
}

int __wrap_ports_progress(uint64_t now, enum ports_look which);
int __wrap_ports_progress(uint64_t now, enum ports_look which)
{
	eventfd_t ignored;
	unsigned there;

	world.wire_looks++;
	if (atomic_exchange(&world.wakes, false)) {
		woken_at = world.wire_looks;
		eventfd_write(world.wake_fd, 1);
	}
	if (world.endless)
		return find_one();
	if (world.busy && !world.hears) {
		world.busy--;
		return -EBUSY;
	}
	if (world.stream) {
		bool found = world.wire_looks % 3 == 0;

		world.lent = world.lent || poll_lease_is_held();
		world.taken_alone += found && !world.hears;
		eventfd_write(world.packets_fd, 1);
		return found;
	}
	/* empty, unless another one comes now */
	eventfd_read(world.packets_fd, &ignored);
	there = world.packets;
	if (there == 1)
		world.searches_at_empty = world.searches;
	while (there && !atomic_compare_exchange_weak(&world.packets, &there, there - 1))
		;
	return there != 0;
}

bool __wrap_port_table_listen(bool on);
bool __wrap_port_table_listen(bool on)
{
	struct epoll_event event = { .events = EPOLLIN };
	bool hear = on && !world.ports_are_deaf;

	world.listens++;
	if (hear && atomic_exchange(&world.comes_late, false)) {
		world.packets++;
		eventfd_write(world.packets_fd, 1);
	}
	if (world.hears != hear)
		epoll_ctl(port_table_epoll(), world.hears ? EPOLL_CTL_DEL : EPOLL_CTL_ADD,
			  world.packets_fd, &event);
	world.hears = hear;
	return hear == on;
}

uint64_t __wrap_shm_timer_deadline_ns(void);
uint64_t __wrap_shm_timer_deadline_ns(void)
{
	return world.retry_due;
}

void __wrap_shm_retry_run(uint64_t now);
void __wrap_shm_retry_run(uint64_t now)
{
	world.retries++;
	world.retry_due = SHM_TIMER_NEVER;
}

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	unsigned ms = pthread_equal(pthread_self(), main_thread) ? world.away_ms : 0;
	int rc;

	world_sleep_ms(ms);
	rc = __real_timerfd_settime(fd, flags, new, old);
	world_sleep_ms(ms);
	return rc;
}

bool world_waits_for(bool (*condition)(void))
{
	uint64_t end = clock_now_ns() + PATIENCE_MS * 1000000ull;

	while (!condition())
		if (clock_now_ns() > end)
			return false;
		else
			world_sleep_ms(1);
	return true;
}

bool world_is_asleep(void)
{
	return atomic_load(&world.header.need_wakeup) && !poll_lease_is_held();
}

bool world_is_empty(void)
{
	return world.packets == 0;
}

void world_arrive(void)
{
	world.packets++;
	eventfd_write(world.packets_fd, 1);
}

/* One progress thread for all tests: it lives as long as its process. */
int world_start(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	void *arena = aligned_alloc(4096, 2 << 20);

	main_thread = pthread_self();
	world.header.need_wakeup = true;
	world.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	daemon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	world.packets_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(ports_init(NULL, arena), 0);
	assert_int_equal(epoll_ctl(port_table_epoll(), EPOLL_CTL_ADD, world.packets_fd, &event), 0);
	port_table_count = 1;
	assert_int_equal(progress_thread_start(NULL, &world.header, world.wake_fd), 0);
	return 0;
}

int world_settle(void **state)
{
	world.endless = world.links_busy = world.links_are_held = world.stream = false;
	world.away_ms = 0;
	world.look_ns = 0;
	world.migrates = false;
	assert_true(world_waits_for(world_is_asleep));
	return 0;
}
