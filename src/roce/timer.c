/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/timer.h"

#include "base/list.h"
#include "base/lock.h"
#include "roce/roce_env.h"

static struct lock heap_lock = LOCK_INITIALIZER;
static struct timer_heap heap GUARDED_BY(heap_lock);
static uint32_t reserved GUARDED_BY(heap_lock);
static _Atomic uint64_t earliest_ns = TIMER_NEVER; /* written under heap_lock */

int timer_reserve(void)
{
	int error;

	lock_acquire(&heap_lock);
	error = timer_heap_reserve(&heap, reserved + 1);
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

static uint64_t find_earliest(void) REQUIRES(heap_lock)
{
	return heap.count ? heap.at[0]->deadline_ns : TIMER_NEVER;
}

void timer_arm(struct timer *timer, uint64_t deadline_ns)
{
	lock_acquire(&heap_lock);
	if (!timer->entry.place || deadline_ns < timer->entry.deadline_ns)
		timer_heap_set(&heap, &timer->entry, deadline_ns);
	if (find_earliest() < earliest_ns) {
		earliest_ns = find_earliest();
		roce_env.deadline(earliest_ns);
	}
	lock_release(&heap_lock);
}

/*
 * Does not announce that the earliest deadline is later now: the progress thread wakes in vain
 * once.
 */
void timer_disarm(struct timer *timer)
{
	lock_acquire(&heap_lock);
	if (timer->entry.place)
		timer_heap_remove(&heap, &timer->entry);
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
	if (heap.count && heap.at[0]->deadline_ns <= now_ns) {
		qpn = container_of(heap.at[0], struct timer, entry)->qpn;
		timer_heap_remove(&heap, heap.at[0]);
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

void timer_reset_after_fork(void)
{
	lock_acquire_in_child(&heap_lock);
	heap.count = reserved = 0;
	earliest_ns = TIMER_NEVER;
	lock_release(&heap_lock);
}
