/*
 * CM timers - the deadlines of all connections, earliest first.
 *
 * A heap with one timer of the loop: there may be ten thousand connections in TIMEWAIT.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_TIMERS_H
#define CMSERVER_CM_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#include "event/loop.h"

/* Embedded in its owner. Zeroed: not armed. */
struct cm_timer {
	size_t place; /* in the heap, plus 1; 0: not armed */
	int64_t deadline_ns;
};

struct cm_timers {
	struct loop *loop;
	struct loop_timer next;
	void (*on_expire)(struct cm_timers *timers, struct cm_timer *timer, int64_t now_ns);
	struct cm_timer **heap;
	size_t count, room;
};

/* on_expire may arm and disarm any timer. */
void cm_timers_init(struct cm_timers *timers, struct loop *loop,
		    void (*on_expire)(struct cm_timers *, struct cm_timer *, int64_t now_ns));
void cm_timers_fini(struct cm_timers *timers);

/* deadline_ns 0: disarms. 0 or -ENOMEM. */
int cm_timers_set(struct cm_timers *timers, struct cm_timer *timer, int64_t deadline_ns);

#endif
