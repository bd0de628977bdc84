/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migrate - moves pages of registered regions into this process's heap (a sealed memfd), where
 * peers copy to and from them with plain stores and loads. For peers on other hosts the responder
 * does so.
 *
 * In:  requests of peers (migrate_request, migrate_want); published and revoked keys; forks.
 * Out: arena_key.heap and heap_edges, and the flags MOVING and STAYS of arena_key.flags.
 *
 * Only the progress thread moves pages, a slice at a time and without a lock (migrate_run).
 * ibv_dereg_mr and fork request that pages leave, and wait. range_lock guards the ranges
 * (memory/range.h). See docs/design/one-sided.md: the states of a range, why no write is lost, and
 * why no thread waits without a bound.
 */
#ifndef MEMORY_MIGRATE_H
#define MEMORY_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/move.h"
#include "memory/range.h"

/* The heap is sparse: so much address space, no memory. */
#define MIGRATE_HEAP_BYTES (64ull << 30)

#define MIGRATE_NEVER UINT64_MAX

/*
 * The user's choice: VERBATIM_MIGRATE is "never", "held" (as without userfaultfd), "always" (even
 * if not safe) or not set.
 */
enum move_permission migrate_wish(void);

/*
 * Once per adapter, before the first key. The heap stays the caller's; `kick` makes the progress
 * thread run.
 */
void migrate_init(int heap_fd, uint64_t heap_bytes, void (*kick)(void));
/* Undoes migrate_init: the adapter could not be made, and there is no key. */
void migrate_fini(void);

/*
 * Requests that the region of this key migrates, sooner or later. False: the key has ended, or too
 * many requests; the peer may ask again. Never blocks.
 */
bool migrate_request(uint32_t key);

/*
 * The address, in our own mapping of the heap, of `bytes` at `host` in the region of `entry`. NULL:
 * they are not all in the heap. A copy there needs nothing of the program's mappings. The caller
 * has published a hazard, found the key alive and not MOVING, and copies before hazard_clear.
 */
char *migrate_map(const struct arena_key *entry, uint64_t host, size_t bytes);
/*
 * A region that peers may use was registered, by a thread that holds no lock. If pages move during
 * holds only, and this is the program's only thread, a region of moderate size migrates now, as its
 * program may never call a verb again. Takes some milliseconds at most for each MiB, and waits half
 * a second for a progress thread that gets no processor. The first 32 MiB of a process move so.
 */
void migrate_offer(uint32_t key, uint64_t length);
/* A peer wrote or read so many bytes outside of the heap: requests migration when it pays. Never
 * blocks. */
void migrate_want(uint32_t key, uint64_t length, size_t bytes);

/*
 * One turn, by the progress thread alone: moves one slice at most. Returns when the next turn is
 * due, of CLOCK_MONOTONIC: 0 at once, MIGRATE_NEVER not before a kick.
 */
uint64_t migrate_run(uint64_t now_ns);

/*
 * Sets heap, and MOVING, of an entry that is about to be published: another key may have its pages
 * in the heap.
 */
void migrate_on_publish(struct arena_key *entry) REQUIRES(range_lock);
/*
 * A key is dead, and no hazard is on it any more: its pages go back if it was their last key, and
 * its request is dropped. Never blocks.
 */
void migrate_on_revoke(struct arena_key *entry) EXCLUDES(range_lock);

/*
 * Waits until this memory is out of the heap, unless another key covers it: the program may unmap
 * or fork it afterwards. Pages that cannot leave now stay usable. The caller holds no lock and is
 * not the progress thread.
 */
void migrate_wait_out(uint64_t addr, uint64_t length) EXCLUDES(range_lock);

/* Around fork(): pages that can leave the heap are out of it, and none move meanwhile. */
void migrate_before_fork(void) EXCLUDES(range_lock);
void migrate_in_parent(void) EXCLUDES(range_lock);
void migrate_in_child(void);

#endif
