/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer_heap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"

#define ROOM_FIRST 64

int timer_heap_reserve(struct timer_heap *heap, uint32_t count)
{
	uint32_t room = heap->room ? heap->room : ROOM_FIRST;
	struct timer_heap_entry **at;

	if (count <= heap->room)
		return 0;
	while (room < count)
		room *= 2;
	at = realloc(heap->at, room * sizeof(*at));
	if (!at)
		return -ENOMEM;
	heap->at = at;
	heap->room = room;
	return 0;
}

static void put(struct timer_heap *heap, uint32_t at, struct timer_heap_entry *entry)
{
	heap->at[at] = entry;
	entry->place = at + 1;
}

/* Puts the entry at `at` or, if it is earlier than what is above, further up. Returns where. */
static uint32_t sift_up(struct timer_heap *heap, uint32_t at, struct timer_heap_entry *entry)
{
	for (; at && heap->at[(at - 1) / 2]->deadline_ns > entry->deadline_ns; at = (at - 1) / 2)
		put(heap, at, heap->at[(at - 1) / 2]);
	put(heap, at, entry);
	return at;
}

static void sift_down(struct timer_heap *heap, uint32_t at, struct timer_heap_entry *entry)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    heap->at[child + 1]->deadline_ns < heap->at[child]->deadline_ns)
			child++;
		if (heap->at[child]->deadline_ns >= entry->deadline_ns)
			break;
		put(heap, at, heap->at[child]);
		at = child;
	}
	put(heap, at, entry);
}

void timer_heap_set(struct timer_heap *heap, struct timer_heap_entry *entry, uint64_t deadline_ns)
{
	uint32_t at = entry->place ? entry->place - 1 : heap->count++;

	entry->deadline_ns = deadline_ns;
	sift_down(heap, sift_up(heap, at, entry), entry);
	CHECK(timer_heap_check(heap));
}

void timer_heap_remove(struct timer_heap *heap, struct timer_heap_entry *entry)
{
	uint32_t at = entry->place - 1;
	struct timer_heap_entry *last = heap->at[--heap->count];

	entry->place = 0;
	if (last != entry)
		sift_down(heap, sift_up(heap, at, last), last);
	CHECK(timer_heap_check(heap));
}

#ifdef VERBATIM_CHECK
#define ALL_ENTRIES 64 /* of a larger heap a check walks all entries only now and then */

/*
 * A timer heap:
 * - its entries fit in the room there is;
 * - each entry knows its place, so that it can be removed;
 * - no entry is due before its parent, so that at[0] is the earliest.
 */
void timer_heap_check(const struct timer_heap *heap)
{
	uint32_t count = heap->count;

	INVARIANT(count <= heap->room, "%u entries, room for %u", count, heap->room);
	if (count > ALL_ENTRIES && !check_sometimes(ALL_ENTRIES))
		count = ALL_ENTRIES;
	for (uint32_t i = 0; i < count; i++) {
		const struct timer_heap_entry *entry = heap->at[i],
					      *parent = heap->at[i ? (i - 1) / 2 : 0];

		INVARIANT(entry->place == i + 1, "entry %u has place %u", i, entry->place);
		INVARIANT(parent->deadline_ns <= entry->deadline_ns,
			  "entry %u: %llu ns, its parent %llu ns", i,
			  (unsigned long long)entry->deadline_ns,
			  (unsigned long long)parent->deadline_ns);
	}
}
#endif
