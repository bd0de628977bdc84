/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers - the timerfds by which deadlines wake the progress thread: those of retries on this host
 * (shm/timer.h) and those of the transport (roce/roce.h).
 *
 * The threads that poll run both kinds by the clock. So a timer is set only while no thread holds
 * the poll lease (wakeup_on_deadline, wakeup_on_retry_deadline), or by the progress thread when it
 * ends the lease (barrier TIMER, adapter/poll_lease.h).
 *
 * A thread may be late with a deadline that it has read: another one has set the timer to an
 * earlier deadline meanwhile. So setting a timer moves it forward only, to an earlier time. Who
 * drains it, the progress thread, looks at all deadlines afterwards, and sets it to the earliest of
 * them before it sleeps.
 *
 * Any thread.
 */
#ifndef ADAPTER_TIMERS_H
#define ADAPTER_TIMERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/timerfd.h>

/* 0 or -errno. */
int timers_init(void);

/* The timer of retries on this host, and of the transport, fires at `ns` or earlier. */
void timers_arm_retry(uint64_t ns);
void timers_arm_roce(uint64_t ns);

/*
 * The sleeper has deferred a notice (shm/progress.h) before `now` was read: the progress thread
 * sends it a millisecond later at most, if no other thread did. A timer that is set already is good
 * for this one, too: so it is set once in a millisecond, however many messages come. Called by the
 * sleeper alone.
 */
void timers_on_deferred_notice(uint64_t now_ns);

/* Readable when something is due, until they are drained. */
int timers_retry_fd(void);
int timers_roce_fd(void);
int timers_notice_fd(void);
void timers_drain_retry(void);
void timers_drain_roce(void);

/* Sets a timerfd to fire at `ns`, CLOCK_MONOTONIC. */
static inline void timers_set(int fd, uint64_t ns)
{
	struct itimerspec when = {
		.it_value = { (time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull) },
	};

	timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void timers_reset_after_fork(void);

#endif
