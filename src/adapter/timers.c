/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/timers.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/lock.h"
#include "roce/roce.h"

static int retry_timer = -1, roce_timer = -1, notice_timer = -1;
static _Atomic uint64_t notice_due_ns; /* notice_timer is set to this */
#define NOTICE_NS 1000000ull

static struct lock roce_lock = LOCK_INITIALIZER;		       /* innermost */
static uint64_t roce_timer_ns GUARDED_BY(roce_lock) = TRANSPORT_NEVER; /* it is set to this */

int timers_init(void)
{
	retry_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	roce_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	notice_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	notice_due_ns = 0;
	return retry_timer < 0 || roce_timer < 0 || notice_timer < 0 ? -errno : 0;
}

void timers_arm_retry(uint64_t ns)
{
	timers_set(retry_timer, ns);
}

void timers_arm_roce(uint64_t ns)
{
	lock_acquire(&roce_lock);
	if (ns < roce_timer_ns) {
		roce_timer_ns = ns;
		timers_set(roce_timer, ns ? ns : 1);
	}
	lock_release(&roce_lock);
}

int timers_retry_fd(void)
{
	return retry_timer;
}

int timers_roce_fd(void)
{
	return roce_timer;
}

void timers_drain_roce(void)
{
	uint64_t count;
	ssize_t got;

	lock_acquire(&roce_lock);
	got = read(roce_timer, &count, sizeof(count));
	(void)got; /* EAGAIN: another thread has set it anew */
	roce_timer_ns = TRANSPORT_NEVER;
	lock_release(&roce_lock);
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
	if (retry_timer >= 0)
		close(retry_timer);
	if (roce_timer >= 0)
		close(roce_timer);
	retry_timer = roce_timer = notice_timer = -1;
	lock_acquire_in_child(&roce_lock);
	roce_timer_ns = TRANSPORT_NEVER;
	lock_release(&roce_lock);
}
