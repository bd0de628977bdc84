/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazard - hazard pointers with membarrier(2): how a memory key is revoked while other threads and
 * processes copy to and from its memory without locks.
 *
 * A copier is a thread that copies by a key, of its own process or of a peer. It
 *   1. publishes {owner's slot, key} in a hazard entry of its own arena      (hazard_set)
 *   2. then loads the key's entry and checks it                              (key_check)
 *   3. copies
 *   4. clears the hazard entry (release)                                     (hazard_clear)
 * The thread that revokes the key
 *   a. zeroes arena_key.key
 *   b. executes membarrier for all processes that share arenas               (hazard_barrier)
 *   c. scans the arenas of all living processes, until none publishes the key (hazard_owner).
 *
 * Barrier HAZARD: between 1 and 2 there is only a compiler barrier; b is the other half of the
 * pair. Either the scan of c sees the copier's entry, or the copier's check sees the zero of a.
 * Once a scan finds no entry for the key, no copier can use it any more.
 *
 * A copier may be stopped between 1 and 4 for any time. So no thread waits for c without a bound,
 * nor with a lock held. A work request completes after a later scan (object/mw.h); a call gives up
 * (memory/key_revoke.h).
 *
 * A process has a fixed number of lines of entries. A thread owns a line, with an entry for each
 * hazard within a hazard, as long as there are enough. Without a line of its own it takes a shared
 * entry, and may wait for it (hazard.c).
 */
#ifndef MEMORY_HAZARD_H
#define MEMORY_HAZARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* Set once, before the first key: this process's arena and slot. */
void hazard_init(void *arena, uint32_t slot);
void hazard_reset_after_fork(void);

/*
 * Makes every thread of all processes that share arenas pass a full barrier (membarrier). The
 * calling thread then sees what they stored before, and their later loads see what it stored
 * before. The costly half of the pairs HAZARD and WAKEUP.
 */
void hazard_barrier(void);

/* False: the kernel has no membarrier, and hazard_barrier only waits for a millisecond. */
bool hazard_barrier_works(void);

/*
 * Publishes `key` of the process in `slot`; returns the entry. Never fails. A thread has three
 * hazards at most.
 */
struct arena_hazard *hazard_set(uint32_t slot, uint32_t key);

/*
 * The same for a key of this process, and a copy that the userfaultfd guard cannot stop: it goes to
 * our mapping of the heap, or through process_vm_writev. A copier that then stores at the program's
 * addresses instead calls hazard_leave_heap first.
 */
struct arena_hazard *hazard_set_in_heap(uint32_t slot, uint32_t key);
void hazard_leave_heap(struct arena_hazard *hazard);

static inline void hazard_clear(struct arena_hazard *hazard)
{
	atomic_store_explicit(&hazard->what, 0, memory_order_release);
}

/*
 * Step c above, one scan: the PID of a process that publishes `key`, or 0. `key` is one of ours
 * that was zeroed before the last hazard_barrier. Never blocks.
 *
 * The adapter sets the visitor. It calls `check` with its own arena and each peer's, while none of
 * them can be unmapped, and returns the PID of the first for which that is true, or 0.
 */
typedef bool hazard_check(void *arena, uint64_t what); /* true: this arena publishes it */
typedef uint32_t hazard_visitor(hazard_check *check, uint64_t what);
void hazard_set_visitor(hazard_visitor *visit);
uint32_t hazard_owner(uint32_t key);

/*
 * The pause before the next scan, after so many: 0 for the first ones, then twice as long each
 * time, up to 5 ms.
 */
uint64_t hazard_pause_ns(uint32_t scans);

/* Waits between two scans of a call that may block. False: the call has lasted HAZARD_WAIT_MS. */
#define HAZARD_WAIT_MS 3000
struct hazard_wait {
	uint32_t scans;
	uint64_t begin_ns;
};
bool hazard_wait(struct hazard_wait *wait);

/*
 * Barrier and scans for keys that stay alive but were marked (KEY_MOVING); gives up after `ms`
 * milliseconds. True: no other process has a hazard on any of them from before the mark, and this
 * process has none of hazard_set_in_heap.
 */
bool hazard_drain(const uint32_t *keys, unsigned count, unsigned ms);

#endif
