#include "cmserver/cm_timers.h"

#include <errno.h>
#include <stdlib.h>

#include "ctl/deadline.h"

#define ROOM_FIRST 64

static void put(struct cm_timers *timers, size_t at, struct cm_timer *timer)
{
	timers->heap[at] = timer;
	timer->place = at + 1;
}

static void rise(struct cm_timers *timers, size_t at)
{
	struct cm_timer *timer = timers->heap[at];

	while (at) {
		size_t parent = (at - 1) / 2;

		if (timers->heap[parent]->deadline_ns <= timer->deadline_ns)
			break;
		put(timers, at, timers->heap[parent]);
		at = parent;
	}
	put(timers, at, timer);
}

static void sink(struct cm_timers *timers, size_t at)
{
	struct cm_timer *timer = timers->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= timers->count)
			break;
		if (child + 1 < timers->count &&
		    timers->heap[child + 1]->deadline_ns < timers->heap[child]->deadline_ns)
			child++;
		if (timer->deadline_ns <= timers->heap[child]->deadline_ns)
			break;
		put(timers, at, timers->heap[child]);
		at = child;
	}
	put(timers, at, timer);
}

static void arm_loop(struct cm_timers *timers)
{
	if (timers->count)
		loop_timer_arm(timers->loop, &timers->next,
			       deadline_left_ms(timers->heap[0]->deadline_ns));
	else
		loop_timer_disarm(&timers->next);
}

static void take_out(struct cm_timers *timers, struct cm_timer *timer)
{
	size_t at = timer->place - 1;
	struct cm_timer *last = timers->heap[--timers->count];

	timer->place = 0;
	if (last == timer)
		return;
	put(timers, at, last);
	rise(timers, at);
	sink(timers, last->place - 1);
}

static void on_next(struct loop_timer *next)
{
	struct cm_timers *timers = container_of(next, struct cm_timers, next);
	int64_t now_ns = deadline_now_ns();

	while (timers->count && timers->heap[0]->deadline_ns <= now_ns) {
		struct cm_timer *timer = timers->heap[0];

		take_out(timers, timer);
		timers->on_expire(timers, timer, now_ns);
	}
	arm_loop(timers);
}

void cm_timers_init(struct cm_timers *timers, struct loop *loop,
		    void (*on_expire)(struct cm_timers *, struct cm_timer *, int64_t now_ns))
{
	*timers = (struct cm_timers){ .loop = loop, .on_expire = on_expire };
	loop_timer_init(&timers->next, on_next);
}

void cm_timers_fini(struct cm_timers *timers)
{
	loop_timer_disarm(&timers->next);
	free(timers->heap);
}

static int make_room(struct cm_timers *timers)
{
	size_t room = timers->room ? 2 * timers->room : ROOM_FIRST;
	struct cm_timer **heap;

	if (timers->count < timers->room)
		return 0;
	heap = realloc(timers->heap, room * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	timers->heap = heap;
	timers->room = room;
	return 0;
}

int cm_timers_set(struct cm_timers *timers, struct cm_timer *timer, int64_t deadline_ns)
{
	struct cm_timer *first = timers->count ? timers->heap[0] : NULL;
	int rc;

	if (timer->place && timer->deadline_ns == deadline_ns)
		return 0;
	if (timer->place)
		take_out(timers, timer);
	if (deadline_ns) {
		rc = make_room(timers);
		if (rc)
			return rc;
		timer->deadline_ns = deadline_ns;
		timers->heap[timers->count] = timer;
		rise(timers, timers->count++);
	}
	if (!timers->count || timers->heap[0] != first || first == timer)
		arm_loop(timers);
	return 0;
}
