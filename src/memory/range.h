/*
 * Range - the pages that are in the heap or on their way, and what the keys over them say of that.
 *
 * In:  ranges that memory/migrate.c makes, moves and drops, as is told there; the table of keys.
 * Out: MOVING of arena_key.flags, heap and heap_edges; whether peers have left, and whether a key needs the pages.
 *
 * All is guarded by migrate_lock. Only the progress thread adds and takes away ranges, so to it they stay where
 * they are while it does not hold the lock.
 */
#ifndef MEMORY_RANGE_H
#define MEMORY_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/migrate.h"

#define RANGES_MAX 1024

struct range {
	uintptr_t start, end; /* whole pages */
	uint64_t offset;      /* in the heap */
	uint64_t in;	      /* so many of the first bytes are there */
	uint32_t key;	      /* that was asked for */
	uint32_t needed_by;   /* index of a key that led to all of it when that was looked at last; 0 */
	bool settled;	      /* all in, and published; else all keys over it are MOVING */
	bool drained;	      /* nobody touches it but where a page fault holds him */
	bool put_off;	      /* nobody waits for it */
	int refused;	      /* -errno: it did not get in, and goes out; 0 */
	uint64_t since_ns;    /* it has not been settled */
	uint64_t next_ns;     /* it is not looked at before */
	uint64_t pause_ns;    /* for which it is put off the next time; 0: it was not lately */
	char *aside;	      /* see struct move_range; NULL: not yet */
};

/* By their offsets. */
extern struct range ranges[RANGES_MAX] GUARDED_BY(migrate_lock);
extern unsigned range_count GUARDED_BY(migrate_lock);

/* 0: none does; -EEXIST; -EAGAIN: one that is on its way, so the caller may ask again. */
int range_find_overlap(uintptr_t start, uintptr_t end) REQUIRES(migrate_lock);
/* Gives it a place in a heap of this length. False: there is none. */
bool range_insert(const struct range *range, uint64_t heap_bytes, struct range **out) REQUIRES(migrate_lock);
struct range range_remove(unsigned index) REQUIRES(migrate_lock);

static inline bool range_key_is_alive(const struct arena_key *entry)
{
	return atomic_load_explicit(&entry->key, memory_order_acquire) != 0;
}

/* Its memory need not be there, or is none of ours. */
static inline bool range_key_is_elsewhere(const struct arena_key *entry)
{
	return atomic_load(&entry->flags) & (KEY_ON_DEMAND | KEY_NULL);
}

/* The pages that lie wholly within the region. False: there are none. */
bool range_find_pages(const struct arena_key *entry, uintptr_t *start, uintptr_t *end);
bool range_overlaps(const struct range *range, const struct arena_key *entry);
/* All that can be of the region is in the range. */
bool range_contains(const struct range *range, const struct arena_key *entry);

/* Says where the entry's bytes are that are in the range, of which it has some. */
void range_publish(const struct range *range, struct arena_key *entry);
/* MOVING of all keys over the range is what it has to be; those that it has, or had, in the heap are told where. */
void range_update_keys(const struct range *range) REQUIRES(migrate_lock);
/* Some key leads to all of it: the one that did so the last time, or else all are looked at. */
bool range_is_needed(struct range *range) REQUIRES(migrate_lock);
/* Nobody touches the range any more who has not seen that its keys are MOVING. Never blocks. */
bool range_drain(const struct range *range) EXCLUDES(migrate_lock);

#endif
