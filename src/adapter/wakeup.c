/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/wakeup.h"

#include <stdatomic.h>

#include "adapter/listening.h"
#include "adapter/poll_lease.h"
#include "adapter/timers.h"
#include "base/syscall.h"

static int wake = -1;

void wakeup_init(int wake_fd)
{
	wake = wake_fd;
}

int wakeup_fd(void)
{
	return wake;
}

void wakeup_send(void)
{
	uint64_t one = 1;

	if (sys_write(wake, &one, sizeof(one)) < 0)
		return; /* the counter is full, so the progress thread is being woken */
}

/* The calling thread has stored its work before, so the progress thread's look finds it (TIMER). */
void wakeup_kick(void)
{
	atomic_signal_fence(memory_order_seq_cst); /* TIMER */
	if (poll_lease_until_ns() == 0)
		wakeup_send();
}

void wakeup_on_deadline(uint64_t ns)
{
	atomic_signal_fence(memory_order_seq_cst); /* TIMER */
	if (!poll_lease_is_held())
		timers_arm_roce(ns);
}

void wakeup_on_retry_deadline(uint64_t ns)
{
	if (!poll_lease_is_held()) /* TIMER */
		timers_arm_retry(ns);
}

bool wakeup_on_polling(uint64_t now)
{
	if (!poll_lease_renew(now))
		return false;
	listening_on_renewal();
	return true;
}

void wakeup_on_arm(void)
{
	if (poll_lease_give_back())
		wakeup_kick();
}

void wakeup_reset_after_fork(void)
{
	wake = -1;
}
