#include "roce/timer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "roce/roce_qp.h"

static struct lock heap_lock = LOCK_INITIALIZER;
static struct timer **heap GUARDED_BY(heap_lock); /* heap[1] is the earliest */
static uint32_t heap_count GUARDED_BY(heap_lock), heap_room GUARDED_BY(heap_lock);
static uint32_t reserved GUARDED_BY(heap_lock);
static _Atomic uint64_t earliest_ns = TIMER_NEVER; /* written under heap_lock */

int timer_reserve(void)
{
	int error = 0;

	lock_acquire(&heap_lock);
	if (reserved + 2 > heap_room) {
		uint32_t room = heap_room ? 2 * heap_room : 64;
		struct timer **grown = realloc(heap, room * sizeof(*heap));

		if (grown) {
			heap = grown;
			heap_room = room;
		} else {
			error = -ENOMEM;
		}
	}
	if (!error)
		reserved++;
	lock_release(&heap_lock);
	return error;
}

void timer_release(void)
{
	lock_acquire(&heap_lock);
	reserved--;
	lock_release(&heap_lock);
}

static void put(uint32_t place, struct timer *timer) REQUIRES(heap_lock)
{
	heap[place] = timer;
	timer->place = place;
}

static void sift_up(uint32_t place, struct timer *timer) REQUIRES(heap_lock)
{
	for (; place > 1 && heap[place / 2]->deadline_ns > timer->deadline_ns; place /= 2)
		put(place, heap[place / 2]);
	put(place, timer);
}

static void sift_down(uint32_t place, struct timer *timer) REQUIRES(heap_lock)
{
	for (;;) {
		uint32_t child = 2 * place;

		if (child > heap_count)
			break;
		if (child < heap_count && heap[child + 1]->deadline_ns < heap[child]->deadline_ns)
			child++;
		if (heap[child]->deadline_ns >= timer->deadline_ns)
			break;
		put(place, heap[child]);
		place = child;
	}
	put(place, timer);
}

static void take_out(struct timer *timer) REQUIRES(heap_lock)
{
	uint32_t place = timer->place;
	struct timer *last = heap[heap_count--];

	timer->place = 0;
	if (last == timer)
		return;
	if (place > 1 && heap[place / 2]->deadline_ns > last->deadline_ns)
		sift_up(place, last);
	else
		sift_down(place, last);
}

static uint64_t find_earliest(void) REQUIRES(heap_lock)
{
	return heap_count ? heap[1]->deadline_ns : TIMER_NEVER;
}

void timer_arm(struct timer *timer, uint64_t deadline_ns)
{
	lock_acquire(&heap_lock);
	if (!timer->place) {
		timer->deadline_ns = deadline_ns;
		sift_up(++heap_count, timer);
	} else if (deadline_ns < timer->deadline_ns) {
		timer->deadline_ns = deadline_ns;
		sift_up(timer->place, timer);
	}
	if (find_earliest() < earliest_ns) {
		earliest_ns = find_earliest();
		roce_env.deadline(earliest_ns);
	}
	lock_release(&heap_lock);
}

/* Nobody is told that the earliest is later now: he looks in vain, once. */
void timer_disarm(struct timer *timer)
{
	lock_acquire(&heap_lock);
	if (timer->place)
		take_out(timer);
	earliest_ns = find_earliest();
	lock_release(&heap_lock);
}

uint64_t timer_next_ns(void)
{
	return atomic_load_explicit(&earliest_ns, memory_order_relaxed);
}

uint32_t timer_take_due(uint64_t now_ns)
{
	uint32_t qpn = 0;

	lock_acquire(&heap_lock);
	if (heap_count && heap[1]->deadline_ns <= now_ns) {
		qpn = heap[1]->qpn;
		take_out(heap[1]);
	}
	if (!qpn)
		earliest_ns = find_earliest();
	lock_release(&heap_lock);
	return qpn;
}

void timer_announce(void)
{
	lock_acquire(&heap_lock);
	if (earliest_ns != TIMER_NEVER)
		roce_env.deadline(earliest_ns);
	lock_release(&heap_lock);
}

void timer_reset_after_fork(void) NO_LOCK_CHECK
{
	lock_init(&heap_lock);
	heap_count = reserved = 0;
	earliest_ns = TIMER_NEVER;
}
