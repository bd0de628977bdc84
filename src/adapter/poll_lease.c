/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/poll_lease.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "adapter/timers.h"
#include "base/clock.h"
#include "memory/hazard.h"

#define LEASE_NS 1000000ull
#define RENEW_NS (LEASE_NS / 2)

enum { AWAKE, ASLEEP, AWAY }; /* need_wakeup */

static struct arena_header *own;
static int timer = -1;
static _Atomic uint64_t lease_until; /* 0: no thread holds it */
static _Atomic uint64_t renew_at;
/* The thread that took or renewed the lease last: the address of its `self`; 0: it was lent. */
static _Atomic uintptr_t holder;
static _Thread_local char self __attribute__((tls_model("initial-exec")));

int poll_lease_init(struct arena_header *header)
{
	own = header;
	lease_until = renew_at = 0;
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return timer < 0 ? -errno : 0;
}

int poll_lease_fd(void)
{
	return timer;
}

bool poll_lease_is_held(void)
{
	return atomic_load_explicit(&lease_until, memory_order_relaxed) != 0;
}

uint64_t poll_lease_until_ns(void)
{
	return atomic_load(&lease_until);
}

bool poll_lease_renew(uint64_t now)
{
	uint64_t renew = atomic_load_explicit(&renew_at, memory_order_relaxed), fresh;
	uint32_t asleep = ASLEEP;

	if (now < renew && atomic_load_explicit(&own->need_wakeup, memory_order_relaxed) != ASLEEP)
		return false;
	fresh = clock_now_ns(); /* the thread's look may have taken longer than a lease */
	if (now < fresh)
		now = fresh;
	/* one of the threads that poll renews for all */
	if (!atomic_compare_exchange_strong(&renew_at, &renew, now + RENEW_NS))
		return false;
	atomic_store_explicit(&holder, (uintptr_t)&self, memory_order_relaxed);
	atomic_store(&lease_until, now + LEASE_NS);
	atomic_compare_exchange_strong(&own->need_wakeup, &asleep, AWAKE);
	timers_set(timer, now + LEASE_NS); /* LEASE: last */
	return true;
}

bool poll_lease_give_back(void)
{
	uintptr_t whose = atomic_load_explicit(&holder, memory_order_relaxed);

	if (!poll_lease_is_held())
		return false;
	if (whose && whose != (uintptr_t)&self)
		return false; /* another thread polls, also for this one */
	atomic_store(&lease_until, 0);
	atomic_store(&renew_at, 0);
	return true;
}

void poll_lease_lend(uint64_t now)
{
	uint64_t nobody = 0;

	if (atomic_compare_exchange_strong(&lease_until, &nobody, now + LEASE_NS)) {
		atomic_store_explicit(&holder, 0, memory_order_relaxed);
		timers_set(timer, now + LEASE_NS);
	}
}

bool poll_lease_end(void)
{
	uint64_t until = atomic_load(&lease_until);

	if (until > clock_now_ns()) {
		/* the holder may have set the timer late, or to an earlier end */
		timers_set(timer, until);
		return false;
	}
	atomic_store(&lease_until, 0);
	atomic_store_explicit(&own->need_wakeup, ASLEEP, memory_order_release);
	hazard_barrier(); /* WAKEUP, TIMER */
	return true;
}

void poll_lease_on_awake(void)
{
	atomic_store_explicit(&own->need_wakeup, AWAKE, memory_order_relaxed);
}

void poll_lease_leave(void)
{
	atomic_store_explicit(&own->need_wakeup, AWAY, memory_order_release);
	hazard_barrier(); /* WAKEUP */
}

bool poll_lease_is_left(void)
{
	return atomic_load(&own->need_wakeup) == AWAY;
}

void poll_lease_reset_after_fork(void)
{
	if (timer >= 0)
		close(timer);
	timer = -1;
	lease_until = renew_at = 0;
}
