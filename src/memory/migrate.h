/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migrate - moves pages of registered regions into this process's heap (a sealed memfd), where
 * peers copy to and from them with plain stores and loads. For peers on other hosts the responder
 * does so.
 *
 * In:  requests of peers (migrate_request, migrate_want); published and revoked keys; forks.
 * Out: arena_key.heap and heap_edges, and the flags MOVING and STAYS of arena_key.flags.
 *
 * Pages that do not migrate only make copies slower, so pages stay whenever it is doubtful that
 * they can migrate. Only pages wholly within a region migrate, because other data shares those at
 * its edges.
 *
 * One rule: only the progress thread moves pages. It moves a slice at a time, holds no lock
 * meanwhile, and serves all other sources in between (migrate_run). ibv_dereg_mr and fork request
 * that pages leave, and wait. The pages of a region are a *range* (memory/range.h); its first `in`
 * bytes are in the heap. Each turn moves one slice towards where the range belongs: into the heap
 * while a key covers it; out when none does, before a fork, or when a slice was refused on the way
 * in.
 *
 *   state      in      keys over it    the next turn
 *   asked for  0       MOVING          peers have left: moving. Not within 50 ms: gone, and may be
 *                                      asked for again
 *   moving     0..all  MOVING          one more slice in, or out. All in: settled. All out: gone
 *   settled    all     heap published  belongs out: leaving
 *   leaving    all     MOVING          peers have left: moving
 *   put off    1..all  MOVING          the kernel refused to move a slice out (pins, a futex:
 *                                      memory/busy.h), or peers do not leave: tried again after
 *                                      10 ms, 20 ms, ... 1 s. The program can use the memory
 *   gone       0       heap 0          and STAYS if it was refused for good
 *
 * No write is lost:
 *   - Threads of this process write at the program's addresses. A write to a slice that moves waits
 *     in a page fault (memory/move.h); a write to any other slice reaches the memory that is there.
 *     Where the kernel writes without page faults, the slice is refused.
 *   - Peers and the responder write by a key, where no page fault stops them: in their mapping of
 *     the heap, or by process_vm_writev, which looks pages up in advance. So each key that overlaps
 *     the range is MOVING from before the first slice on, and so is each key that is published
 *     meanwhile (migrate_on_publish, under range_lock). A peer that finds a key MOVING sends a
 *     message; the responder writes at the program's address. A copier that found the key not
 *     MOVING has published a hazard before (memory/hazard.h: the mark stands for the zeroed key).
 *     The first slice waits until that hazard, and those on dying keys, are cleared. arena_key.heap
 *     changes only while the key is MOVING or dead, and no hazard is on it. A copier that has
 *     published a hazard, and found the key alive and not MOVING, may use heap until hazard_clear.
 *
 * No thread waits without a bound. The progress thread never waits here: it tries again at its next
 * turn. It runs on a stack of its own, without signals. While a slice moves, it uses only that
 * stack and the library's memory. A thread that waits for the progress thread holds no lock,
 * because its own stack may be on the pages. It goes on when the range is put off, or when nothing
 * has moved for 5 s. A fork then gives the child copies of the pages that could not leave
 * (move_copy_for_child). For the stack and thread-local memory of the forking thread it tries again
 * for 5 s: without them no child can run.
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
/* A slice takes less than a millisecond on an idle machine. */
#define MIGRATE_SLICE_BYTES (1ull << 20)

#define MIGRATE_NEVER UINT64_MAX

/* The user's choice: VERBATIM_MIGRATE is "never", "always" (even if not safe) or not set. */
enum move_permission migrate_wish(void);

/*
 * Once per adapter, before the first key. The heap stays the caller's; `kick` makes the progress
 * thread run.
 */
void migrate_init(int heap_fd, uint64_t heap_bytes, void (*kick)(void));
/* Undoes migrate_init: the adapter could not be made, and there is no key. */
void migrate_fini(void);

/*
 * Requests that the region of this key migrates, sooner or later. False: too many requests; the
 * peer may ask again. Never blocks.
 */
bool migrate_request(uint32_t key);

/*
 * The address, in our own mapping of the heap, of `bytes` at `host` in the region of `entry`. NULL:
 * they are not all in the heap. A write there needs nothing of the program's mappings. The caller
 * has published a hazard, found the key alive and not MOVING, and writes before hazard_clear.
 */
char *migrate_map(const struct arena_key *entry, uint64_t host, size_t bytes);
/* A peer wrote so many bytes outside of the heap: requests migration when it pays. Never blocks. */
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
 * A key is dead, and no hazard is on it any more: its pages go back if it was their last key. Never
 * blocks.
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
