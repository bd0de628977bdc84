/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM timers - the deadlines of all connections, earliest first.
 *
 * A heap with one timer of the loop: there may be ten thousand connections in TIMEWAIT.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_TIMERS_H
#define CMSERVER_CM_TIMERS_H

#include <stdint.h>

#include "base/timer_heap.h"
#include "event/loop.h"

struct cm_timers {
	struct loop *loop;
	struct loop_timer next;
	void (*on_expire)(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t now_ns);
	struct timer_heap heap;
};

/* on_expire may arm and disarm any timer. */
void cm_timers_init(struct cm_timers *timers, struct loop *loop,
		    void (*on_expire)(struct cm_timers *, struct timer_heap_entry *,
				      int64_t now_ns));
void cm_timers_fini(struct cm_timers *timers);

/* deadline_ns 0: disarms. 0 or -ENOMEM. */
int cm_timers_set(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t deadline_ns);

#endif
