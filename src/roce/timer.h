/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer - the timers of all QPs, one each.
 *
 * A heap by deadline under a lock of its own, which is innermost: it may be taken with a QP's lock.
 * A timer may fire too early, but not too late. A QP that postpones its deadline lets the timer
 * fire, and arms it again. So the common case, an acknowledgement in time, does not touch the heap.
 */
#ifndef ROCE_TIMER_H
#define ROCE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer_heap.h"

#define TIMER_NEVER UINT64_MAX

struct timer {
	uint32_t qpn;
	struct timer_heap_entry entry; /* guarded by the heap's lock */
};

/* Reserves (or releases) room for one timer, so that arming never fails. 0 or -ENOMEM. */
int timer_reserve(void);
void timer_release(void);

/* Fires at `deadline_ns` or earlier, once. Does nothing if it fires earlier already. */
void timer_arm(struct timer *timer, uint64_t deadline_ns);
void timer_disarm(struct timer *timer);

/* The earliest deadline, or TIMER_NEVER. Without lock. */
uint64_t timer_next_ns(void);

/* Takes a timer that is due, and returns its QPN; 0: none is. */
uint32_t timer_take_due(uint64_t now_ns);

/* Calls roce_env.deadline with the earliest deadline, after timers were taken. */
void timer_announce(void);

void timer_reset_after_fork(void);

#endif
