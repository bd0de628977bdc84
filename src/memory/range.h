/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Range - the table of page ranges that are in the heap or on their way, and the keys that overlap
 * them.
 *
 * In:  ranges that memory/migrate.c inserts, moves and removes (their states:
 *      docs/design/one-sided.md); the table of keys.
 * Out: MOVING of arena_key.flags, heap and heap_edges; whether hazards are left, and whether a key
 *      needs the pages.
 *
 * range_lock guards all of it, and is held while a key is published or zeroed. Only the progress
 * thread inserts and removes ranges, so its pointers to them stay good while it does not hold the
 * lock.
 */
#ifndef MEMORY_RANGE_H
#define MEMORY_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"

#define RANGES_MAX 1024
/* A slice moves in less than a millisecond on an idle machine. */
#define RANGE_SLICE_BYTES (1ull << 20)

struct range {
	uintptr_t start, end; /* whole pages */
	uint64_t offset;      /* in the heap */
	uint64_t in;	      /* how many of its bytes, from the first on, are in the heap */
	uint32_t key;	      /* a peer asked for this one */
	uint32_t needed_by;   /* index of the key that range_is_needed found last; 0: none */
	bool settled;	      /* all in the heap, and published; else all keys over it are MOVING */
	bool drained; /* no hazards are left: only threads that the guard stops use the pages */
	bool put_off; /* threads do not wait for it */
	int refused;  /* -errno: why it goes out again; or 0 */
	uint64_t since_ns; /* when it was asked for, moved a slice in, or began to leave */
	uint64_t next_ns;  /* the time of its next turn */
	uint64_t pause_ns; /* the last backoff; 0: none */
	char *aside;	   /* see struct move_range; NULL: not mapped yet */
	bool shown; /* private pages are still seen in the heap: it keeps the place's memory */
	bool left_private; /* slices of it left without a hold (move_out_private) */
};

extern struct lock range_lock;

/* In order of their offsets. */
extern struct range ranges[RANGES_MAX] GUARDED_BY(range_lock);
extern unsigned range_count GUARDED_BY(range_lock);

/* A new heap: there are no ranges, and all of it is free. */
void range_init(void) REQUIRES(range_lock);
/*
 * Finds a range that overlaps these pages. 0: none; -EEXIST: a settled one; -EAGAIN: a moving one,
 * so try again.
 */
int range_find_overlap(uintptr_t start, uintptr_t end) REQUIRES(range_lock);
/* Gives the range a place in a heap of `heap_bytes`. False: there is no room. */
bool range_insert(const struct range *range, uint64_t heap_bytes, struct range **out)
	REQUIRES(range_lock);
struct range range_remove(unsigned index) REQUIRES(range_lock);
/*
 * What moves next: in, from range->in up to this end; or out, from this begin up to range->in. The
 * last page moves by itself (move_range.last).
 */
uint64_t range_slice_end(const struct range *range);
uint64_t range_slice_begin(const struct range *range);
/*
 * Its bytes in the heap, and the room behind them that no other range gets. The program can enlarge
 * its mapping of a single page (mremap(2)): then it gets this room, which moves out with the page.
 */
uint64_t range_bytes_and_room(const struct range *range);
/* No range gets its place any more, nor one below, until they are reclaimed. */
void range_retire(const struct range *range) REQUIRES(range_lock);
/*
 * The process forks: its child may see the places that are retired by now, or of which a part has
 * left privately. They are never reclaimed.
 */
void range_keep_retired(void) REQUIRES(range_lock);
/* Places are retired that may be reclaimed. */
bool range_any_retired(void) REQUIRES(range_lock);
/*
 * What the program still maps of retired places ends at this offset in the heap; 0: it maps
 * nothing. Ranges get the places behind it again, or all.
 */
void range_reclaim(uint64_t end) REQUIRES(range_lock);
/* The range's place, or one behind it, was retired at some time. */
bool range_place_was_retired(const struct range *range) REQUIRES(range_lock);
/* The offset is in the place of a range. */
bool range_is_at(uint64_t offset) REQUIRES(range_lock);

static inline bool range_key_is_alive(const struct arena_key *entry)
{
	return atomic_load_explicit(&entry->key, memory_order_acquire) != 0;
}

/* The region's memory may be missing (on demand), or is not this process's (null, imported). */
static inline bool range_key_is_elsewhere(const struct arena_key *entry)
{
	return atomic_load(&entry->flags) & (KEY_ON_DEMAND | KEY_NULL);
}

/* The pages that lie wholly within the region. False: there are none. */
bool range_find_pages(const struct arena_key *entry, uintptr_t *start, uintptr_t *end);
bool range_overlaps(const struct range *range, const struct arena_key *entry);
/* All whole pages of the region are in the range. */
bool range_contains(const struct range *range, const struct arena_key *entry);

/* The settled range that contains the region, or NULL. */
const struct range *range_find_settled(const struct arena_key *entry) REQUIRES(range_lock);

/* Stores the heap's offset in an entry that overlaps the range. */
void range_publish(const struct range *range, struct arena_key *entry);
/* Sets MOVING and the heap offset of all keys over the range to what its state demands. */
void range_update_keys(const struct range *range) REQUIRES(range_lock);
/* A key covers all of the range. Scans the table only if the last known key no longer does. */
bool range_is_needed(struct range *range) REQUIRES(range_lock);
/* No hazard on a key over the range is left from before the key was MOVING. Never blocks. */
bool range_drain(const struct range *range) EXCLUDES(range_lock);

/* base/check.h */
void range_check(void) REQUIRES(range_lock);

#endif
