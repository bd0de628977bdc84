/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/range.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/page.h"
#include "memory/hazard.h"
#include "memory/heap.h"
#include "memory/key.h"

#define PAGE	     ((uint64_t)page_bytes())
#define KEYS_AT_ONCE 256
#define ROOM_OF_ONE  16 /* pages, for a range of one */

static_assert(PAGE_BYTES_MAX - 1 <= 0xffff, "heap_edges: less than a page at each end");
static_assert(HEAP_FIRST % PAGE_BYTES_MAX == 0 && HEAP_WINDOW_BYTES % PAGE_BYTES_MAX == 0,
	      "heaps and their windows are mapped whatever the page");

static uint64_t room_begin GUARDED_BY(range_lock) = HEAP_FIRST;
/* Places below room_begin are retired. */
static struct retired {
	uint64_t kept;	  /* places below are so for good: a child may see them */
	uint64_t end;	  /* of the last place that ever was */
	uint64_t longest; /* that ever was: a program may enlarge the rest of a mapping */
} retired GUARDED_BY(range_lock) = { .kept = HEAP_FIRST };

struct lock range_lock = LOCK_INITIALIZER;
struct range ranges[RANGES_MAX];
unsigned range_count;

/*
 * ------------------------------------------------------------------------------------------
 * The table.
 */

uint64_t range_bytes_and_room(const struct range *range)
{
	uint64_t bytes = range->end - range->start;

	return bytes == PAGE ? ROOM_OF_ONE * PAGE : bytes + PAGE;
}

static uint64_t end_of(const struct range *range)
{
	return range->offset + range_bytes_and_room(range);
}

/*
 * The offset of free room in the heap for the range; 0: there is none. *index: its place in
 * `ranges`.
 */
static uint64_t find_room(const struct range *range, uint64_t heap_bytes, unsigned *index)
	REQUIRES(range_lock)
{
	uint64_t offset = room_begin, bytes = range->end - range->start;
	unsigned i;

	if (range_count == RANGES_MAX || bytes > heap_bytes)
		return 0;
	for (i = 0; i < range_count; i++) {
		uint64_t end = end_of(&ranges[i]);

		if (ranges[i].offset >= offset + range_bytes_and_room(range))
			break;
		if (offset < end)
			offset = end;
	}
	*index = i;
	if (bytes == PAGE)
		bytes = range_bytes_and_room(range);
	return offset + bytes <= heap_bytes ? offset : 0;
}

void range_init(void)
{
	range_count = 0;
	room_begin = HEAP_FIRST;
	retired = (struct retired){ .kept = HEAP_FIRST };
}

void range_retire(const struct range *range)
{
	if (room_begin < end_of(range))
		room_begin = end_of(range);
	if (retired.end < end_of(range))
		retired.end = end_of(range);
	if (retired.longest < range_bytes_and_room(range))
		retired.longest = range_bytes_and_room(range);
}

void range_keep_retired(void)
{
	for (unsigned i = 0; i < range_count; i++)
		if (ranges[i].left_private)
			range_retire(&ranges[i]);
	retired.kept = room_begin;
}

bool range_any_retired(void)
{
	return room_begin > retired.kept;
}

bool range_place_was_retired(const struct range *range)
{
	return range->offset < retired.end;
}

void range_reclaim(uint64_t end)
{
	uint64_t begin = end ? end + retired.longest : HEAP_FIRST;

	if (begin < retired.kept)
		begin = retired.kept;
	if (begin < room_begin)
		room_begin = begin;
}

bool range_is_at(uint64_t offset)
{
	for (unsigned i = 0; i < range_count; i++)
		if (offset >= ranges[i].offset && offset < end_of(&ranges[i]))
			return true;
	return false;
}

int range_find_overlap(uintptr_t start, uintptr_t end)
{
	for (unsigned i = 0; i < range_count; i++)
		if (ranges[i].start < end && ranges[i].end > start)
			return ranges[i].settled ? -EEXIST : -EAGAIN;
	return 0;
}

bool range_insert(const struct range *range, uint64_t heap_bytes, struct range **out)
{
	unsigned index;
	uint64_t offset = find_room(range, heap_bytes, &index);

	if (!offset)
		return false;
	memmove(&ranges[index + 1], &ranges[index], (range_count - index) * sizeof(*ranges));
	ranges[index] = *range;
	ranges[index].offset = offset;
	range_count++;
	*out = &ranges[index];
	CHECK(range_check());
	return true;
}

struct range range_remove(unsigned index)
{
	struct range range = ranges[index];

	range_count--;
	memmove(&ranges[index], &ranges[index + 1], (range_count - index) * sizeof(*ranges));
	CHECK(range_check());
	return range;
}

uint64_t range_slice_end(const struct range *range)
{
	uint64_t last = range->end - range->start - PAGE;

	if (range->in >= last)
		return last + PAGE;
	return range->in + RANGE_SLICE_BYTES < last ? range->in + RANGE_SLICE_BYTES : last;
}

uint64_t range_slice_begin(const struct range *range)
{
	uint64_t last = range->end - range->start - PAGE;

	if (range->in > last)
		return last;
	return (range->in - 1) / RANGE_SLICE_BYTES * RANGE_SLICE_BYTES;
}

/*
 * ------------------------------------------------------------------------------------------
 * The keys over a range.
 */

static uint64_t last_of(const struct arena_key *entry)
{
	uint64_t last = entry->addr + entry->length;

	return last < entry->addr ? UINT64_MAX : last;
}

bool range_overlaps(const struct range *range, const struct arena_key *entry)
{
	return entry->addr < range->end && last_of(entry) > range->start;
}

bool range_find_pages(const struct arena_key *entry, uintptr_t *start, uintptr_t *end)
{
	*start = (entry->addr + PAGE - 1) & ~(PAGE - 1);
	*end = last_of(entry) & ~(PAGE - 1);
	return *start < *end;
}

bool range_contains(const struct range *range, const struct arena_key *entry)
{
	uintptr_t start, end;

	if (range_key_is_elsewhere(entry) || !range_overlaps(range, entry))
		return false;
	/* less than a page: heap_edges tells which bytes */
	if (!range_find_pages(entry, &start, &end))
		return true;
	return start >= range->start && end <= range->end;
}

const struct range *range_find_settled(const struct arena_key *entry)
{
	for (unsigned i = 0; i < range_count; i++)
		if (ranges[i].settled && range_contains(&ranges[i], entry))
			return &ranges[i];
	return NULL;
}

void range_publish(const struct range *range, struct arena_key *entry)
{
	uint64_t before = range->start > entry->addr ? range->start - entry->addr : 0;
	uint64_t behind = last_of(entry) > range->end ? last_of(entry) - range->end : 0;

	entry->heap_edges = (uint32_t)(before | behind << 16);
	atomic_store_explicit(&entry->heap, range->offset + (entry->addr - range->start),
			      memory_order_release);
}

/* A range that is not settled overlaps the entry: peers must not copy to or from its pages. */
static bool must_be_marked(const struct arena_key *entry) REQUIRES(range_lock)
{
	for (unsigned i = 0; i < range_count; i++)
		if (!ranges[i].settled && range_overlaps(&ranges[i], entry))
			return true;
	return false;
}

#ifdef VERBATIM_CHECK
/*
 * The keys over ranges, when their states are stored: a key is MOVING if and only if a range that
 * is not settled overlaps it. Checked now and then, as there are many.
 */
static void check_keys(void) REQUIRES(range_lock)
{
	uint32_t count = key_count();

	if (!check_sometimes(count / 64 + 1))
		return;
	for (uint32_t i = 1; i < count; i++) {
		const struct arena_key *entry = key_entry(i);
		bool moving = atomic_load(&entry->flags) & KEY_MOVING;

		INVARIANT(!range_key_is_alive(entry) || moving == must_be_marked(entry),
			  "key %u at 0x%llx, %llu bytes: MOVING %d", i,
			  (unsigned long long)entry->addr, (unsigned long long)entry->length,
			  moving);
	}
}
#endif

void range_update_keys(const struct range *range)
{
	uint32_t count = key_count();

	for (uint32_t i = 1; i < count; i++) {
		struct arena_key *entry = key_entry(i);

		if (!range_key_is_alive(entry) || !range_overlaps(range, entry))
			continue;
		if (range->settled && range_contains(range, entry))
			range_publish(range, entry);
		else if (range->drained && range_contains(range, entry))
			atomic_store_explicit(&entry->heap, 0, memory_order_relaxed);
		/* Barrier MOVING: cleared after the place in the heap was stored */
		if (must_be_marked(entry))
			atomic_fetch_or(&entry->flags, KEY_MOVING);
		else
			atomic_fetch_and(&entry->flags, ~(uint32_t)KEY_MOVING);
	}
	CHECK(range_check());
	CHECK(check_keys());
}

/* A key over a part does not need the range: the rest may be other memory by now. */
static bool covers(const struct arena_key *entry, const struct range *range)
{
	return range_key_is_alive(entry) && !range_key_is_elsewhere(entry) &&
	       entry->addr <= range->start && last_of(entry) >= range->end;
}

bool range_is_needed(struct range *range)
{
	uint32_t count = key_count();

	if (range->needed_by && covers(key_entry(range->needed_by), range))
		return true;
	for (uint32_t i = 1; i < count; i++)
		if (covers(key_entry(i), range)) {
			range->needed_by = i;
			return true;
		}
	return false;
}

/* Collects the next keys over the range, from *index on. False: one is dying. */
static bool collect_keys(const struct range *range, uint32_t *index, uint32_t keys[KEYS_AT_ONCE],
			 unsigned *count) REQUIRES(range_lock)
{
	uint32_t all = key_count();

	for (*count = 0; *index < all && *count < KEYS_AT_ONCE; ++*index) {
		struct arena_key *entry = key_entry(*index);
		uint32_t key = atomic_load_explicit(&entry->key, memory_order_acquire);
		bool dying = atomic_load(&entry->flags) & KEY_DYING;

		/* The lock keeps a living or dying entry as it is; who has any other may be filling
		 * it. */
		if ((!key && !dying) || !range_overlaps(range, entry))
			continue;
		if (dying)
			return false;
		keys[(*count)++] = key;
	}
	return true;
}

bool range_drain(const struct range *range)
{
	uint32_t keys[KEYS_AT_ONCE], index = 1;
	unsigned count;
	bool living;

	do {
		lock_acquire(&range_lock);
		living = collect_keys(range, &index, keys, &count);
		lock_release(&range_lock);
		if (!living || (count && !hazard_drain(keys, count, 0)))
			return false;
	} while (count == KEYS_AT_ONCE);
	return true;
}

#ifdef VERBATIM_CHECK
static void check_range(const struct range *range) REQUIRES(range_lock)
{
	uint64_t bytes = range->end - range->start;

	INVARIANT(range->start < range->end &&
			  !((range->start | range->end | range->offset) & (PAGE - 1)),
		  "0x%llx to 0x%llx, at 0x%llx", (unsigned long long)range->start,
		  (unsigned long long)range->end, (unsigned long long)range->offset);
	INVARIANT(range->in <= bytes && (!range->settled || range->in == bytes),
		  "0x%llx: %llu of %llu bytes in the heap, settled %d",
		  (unsigned long long)range->start, (unsigned long long)range->in,
		  (unsigned long long)bytes, range->settled);
}

/*
 * The table of ranges:
 * - a range is whole pages, here and in the heap;
 * - in the heap they are sorted, each with its room, from HEAP_FIRST on;
 * - no two ranges have a page of the program in common;
 * - of a settled range all bytes are in the heap, of no range more than all.
 */
void range_check(void)
{
	uint64_t end = HEAP_FIRST;

	INVARIANT(range_count <= RANGES_MAX, "%u ranges", range_count);
	for (unsigned i = 0; i < range_count; i++) {
		check_range(&ranges[i]);
		INVARIANT(ranges[i].offset >= end,
			  "range %u at 0x%llx, the one before ends at 0x%llx", i,
			  (unsigned long long)ranges[i].offset, (unsigned long long)end);
		end = ranges[i].offset + range_bytes_and_room(&ranges[i]);
	}
	if (!check_sometimes(range_count / 16 + 1))
		return;
	for (unsigned i = 0; i < range_count; i++)
		for (unsigned j = 0; j < i; j++)
			INVARIANT(ranges[i].start >= ranges[j].end ||
					  ranges[i].end <= ranges[j].start,
				  "ranges %u and %u: 0x%llx to 0x%llx, 0x%llx to 0x%llx", i, j,
				  (unsigned long long)ranges[i].start,
				  (unsigned long long)ranges[i].end,
				  (unsigned long long)ranges[j].start,
				  (unsigned long long)ranges[j].end);
}
#endif
