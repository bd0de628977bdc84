/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timer heap - a binary heap of deadlines, the earliest first. No lock, no clock.
 */
#ifndef BASE_TIMER_HEAP_H
#define BASE_TIMER_HEAP_H

#include <stdint.h>

/* Embedded in what waits. Zeroed: not armed. */
struct timer_heap_entry {
	uint64_t deadline_ns;
	uint32_t place; /* in `at`, plus 1; 0: not armed */
};

struct timer_heap {
	struct timer_heap_entry **at; /* at[0] is the earliest */
	uint32_t count, room;
};

/* Makes room for `count` entries. 0 or -ENOMEM. */
int timer_heap_reserve(struct timer_heap *heap, uint32_t count);

/* Arms the entry, or moves its deadline. The caller has reserved room. */
void timer_heap_set(struct timer_heap *heap, struct timer_heap_entry *entry, uint64_t deadline_ns);
void timer_heap_remove(struct timer_heap *heap, struct timer_heap_entry *entry);

/* base/check.h */
void timer_heap_check(const struct timer_heap *heap);

#endif
