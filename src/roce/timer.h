/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer - the timers of all QPs, one each.
 *
 * A heap by deadline under a lock of its own, which is innermost: it may be taken with a QP's lock.
 * A timer may fire too early, but not too late. A QP that moves its deadline away lets the timer
 * fire, looks, and arms it again. So the common case, an acknowledgement in time, touches nothing
 * here.
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

/* Room for one more, or less. 0 or -ENOMEM; what was reserved is there whenever it is armed. */
int timer_reserve(void);
void timer_release(void);

/* At `deadline_ns` or earlier, once. Nothing happens if it will fire before that. */
void timer_arm(struct timer *timer, uint64_t deadline_ns);
void timer_disarm(struct timer *timer);

/* The earliest, or TIMER_NEVER. Without lock. */
uint64_t timer_next_ns(void);

/* Takes one that is due, and returns its QPN; 0: none is. */
uint32_t timer_take_due(uint64_t now_ns);

/* Tells roce_env.deadline what the earliest is, after timers were taken. */
void timer_announce(void);

void timer_reset_after_fork(void);

#endif
