/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_timers.h"

#include <stdlib.h>

#include "ctl/deadline.h"

static void arm_loop(struct cm_timers *timers)
{
	if (timers->heap.count)
		loop_timer_arm(timers->loop, &timers->next,
			       deadline_left_ms((int64_t)timers->heap.at[0]->deadline_ns));
	else
		loop_timer_disarm(&timers->next);
}

static void on_next(struct loop_timer *next)
{
	struct cm_timers *timers = container_of(next, struct cm_timers, next);
	int64_t now_ns = deadline_now_ns();

	while (timers->heap.count && timers->heap.at[0]->deadline_ns <= (uint64_t)now_ns) {
		struct timer_heap_entry *timer = timers->heap.at[0];

		timer_heap_remove(&timers->heap, timer);
		timers->on_expire(timers, timer, now_ns);
	}
	arm_loop(timers);
}

void cm_timers_init(struct cm_timers *timers, struct loop *loop,
		    void (*on_expire)(struct cm_timers *, struct timer_heap_entry *,
				      int64_t now_ns))
{
	*timers = (struct cm_timers){ .loop = loop, .on_expire = on_expire };
	loop_timer_init(&timers->next, on_next);
}

void cm_timers_fini(struct cm_timers *timers)
{
	loop_timer_disarm(&timers->next);
	free(timers->heap.at);
}

int cm_timers_set(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t deadline_ns)
{
	struct timer_heap_entry *first = timers->heap.count ? timers->heap.at[0] : NULL;
	int rc;

	if (timer->place && timer->deadline_ns == (uint64_t)deadline_ns)
		return 0;
	if (deadline_ns) {
		rc = timer_heap_reserve(&timers->heap, timers->heap.count + !timer->place);
		if (rc)
			return rc;
		timer_heap_set(&timers->heap, timer, (uint64_t)deadline_ns);
	} else if (timer->place) {
		timer_heap_remove(&timers->heap, timer);
	}
	if (!timers->heap.count || timers->heap.at[0] != first || first == timer)
		arm_loop(timers);
	return 0;
}
