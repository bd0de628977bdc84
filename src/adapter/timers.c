/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/timers.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/lock.h"

#define TIMERS_NEVER UINT64_MAX

/* A timerfd that arming moves forward only. */
struct forward_timer {
	struct lock lock; /* innermost; guards `ns` */
	int fd;
	uint64_t ns; /* fd is set to this or less, or has fired */
};

static struct forward_timer retry = { .lock = LOCK_INITIALIZER, .fd = -1, .ns = TIMERS_NEVER };
static struct forward_timer roce = { .lock = LOCK_INITIALIZER, .fd = -1, .ns = TIMERS_NEVER };

static int notice_timer = -1;
static _Atomic uint64_t notice_due_ns; /* notice_timer is set to this */
#define NOTICE_NS 1000000ull

static void arm(struct forward_timer *timer, uint64_t ns)
{
	lock_acquire(&timer->lock);
	if (ns < timer->ns) {
		timer->ns = ns;
		timers_set(timer->fd, ns ? ns : 1);
	}
	lock_release(&timer->lock);
}

static void drain(struct forward_timer *timer)
{
	uint64_t count;
	ssize_t got;

	lock_acquire(&timer->lock);
	got = read(timer->fd, &count, sizeof(count));
	(void)got; /* EAGAIN: another thread has set it anew */
	timer->ns = TIMERS_NEVER;
	lock_release(&timer->lock);
}

static void reset_after_fork(struct forward_timer *timer)
{
	if (timer->fd >= 0)
		close(timer->fd);
	timer->fd = -1;
	lock_acquire_in_child(&timer->lock);
	timer->ns = TIMERS_NEVER;
	lock_release(&timer->lock);
}

int timers_init(void)
{
	retry.ns = roce.ns = TIMERS_NEVER;
	retry.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	roce.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	notice_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	notice_due_ns = 0;
	return retry.fd < 0 || roce.fd < 0 || notice_timer < 0 ? -errno : 0;
}

void timers_arm_retry(uint64_t ns)
{
	arm(&retry, ns);
}

void timers_arm_roce(uint64_t ns)
{
	arm(&roce, ns);
}

int timers_retry_fd(void)
{
	return retry.fd;
}

int timers_roce_fd(void)
{
	return roce.fd;
}

void timers_drain_retry(void)
{
	drain(&retry);
}

void timers_drain_roce(void)
{
	drain(&roce);
}

/* The notice was deferred before `now` was read: if the timer has still to fire, it does so after
 * that. */
void timers_on_deferred_notice(uint64_t now)
{
	if (now < atomic_load_explicit(&notice_due_ns, memory_order_relaxed))
		return;
	atomic_store_explicit(&notice_due_ns, now + NOTICE_NS, memory_order_relaxed);
	timers_set(notice_timer, now + NOTICE_NS);
}

int timers_notice_fd(void)
{
	return notice_timer;
}

void timers_reset_after_fork(void)
{
	if (notice_timer >= 0)
		close(notice_timer);
	notice_timer = -1;
	reset_after_fork(&retry);
	reset_after_fork(&roce);
}
