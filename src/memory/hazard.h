/*
 * Hazard - hazard pointers with membarrier(2): how a memory key is revoked while other threads and
 * processes copy to and from its memory without locks.
 *
 * A copier is a thread that copies by a key, of its own process or of a peer. It
 *   1. publishes {owner's slot, key} in a hazard entry of its own arena      (hazard_set)
 *   2. then loads the key's entry and checks it                              (key_check, mr_check)
 *   3. copies
 *   4. clears the hazard entry (release)                                     (hazard_clear)
 * The thread that revokes the key
 *   a. zeroes arena_key.key
 *   b. executes membarrier for all processes that share arenas               (hazard_barrier)
 *   c. scans the arenas of all living processes, until none publishes the key (hazard_owner).
 *
 * Barrier HAZARD: between 1 and 2 there is only a compiler barrier; b is the other half of the pair.
 * Either the scan of c sees the copier's entry, or the copier's check sees the zero of a. Once a scan
 * finds no entry for the key, no copier can use it any more.
 *
 * A copier may be stopped between 1 and 4 for any time. So no thread waits for c without a bound, nor
 * with a lock held: work requests complete after a later scan (object/mw.h), calls give up (memory/key.h).
 *
 * A process has a fixed number of entries. A thread keeps the last one it used. It takes another when that
 * is in use: a hazard within a hazard, or more threads than entries. Then it waits for one (hazard.c).
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
 * Makes all processes of ours pass a full barrier (membarrier): what any of their threads stored
 * before is visible here afterwards, and what this thread stored before is visible to what they load
 * afterwards. The costly half of the pairs HAZARD and WAKEUP.
 */
void hazard_barrier(void);

/* False where there is no membarrier: hazard_barrier then only waits a while. */
bool hazard_barrier_works(void);

/* Returns the entry that now publishes `key` of the process in `slot`. Never fails. A thread holds three at most. */
struct arena_hazard *hazard_set(uint32_t slot, uint32_t key);

/*
 * The same for a key of this process, and a copy that no page fault can hold back: to the heap's own mapping, or
 * by process_vm_writev. A copier that takes the program's addresses after all calls hazard_leave_heap first.
 */
struct arena_hazard *hazard_set_in_heap(uint32_t slot, uint32_t key);
void hazard_leave_heap(struct arena_hazard *hazard);

static inline void hazard_clear(struct arena_hazard *hazard)
{
	atomic_store_explicit(&hazard->what, 0, memory_order_release);
}

/*
 * Step c above, one look: the PID of a process that publishes the key, a key of ours that was
 * zeroed before the last hazard_barrier; 0: none does. `visit` calls `check` with each arena of a
 * process that may be at our memory (own and peers'), under whatever protects them from being
 * unmapped, and returns the PID of the first for which that is true, or 0; the adapter gives it.
 * Never blocks.
 */
typedef bool hazard_check(void *arena, uint64_t what); /* true: this arena publishes it */
typedef uint32_t hazard_visitor(hazard_check *check, uint64_t what);
void hazard_set_visitor(hazard_visitor *visit);
uint32_t hazard_owner(uint32_t key);

/* How long one look should come after another: 0 for the first ones, then more and more, up to 5 ms. */
uint64_t hazard_pause_ns(uint32_t looks);

/* Between two looks of a call that may block. False: it has lasted HAZARD_WAIT_MS. */
#define HAZARD_WAIT_MS 3000
struct hazard_wait {
	uint32_t looks;
	uint64_t begin_ns;
};
bool hazard_wait(struct hazard_wait *wait);

/*
 * The same for keys that stay alive but were marked (KEY_MOVING), and gives up after so many
 * milliseconds. True: no other process publishes any of them without having seen the mark, nor does this process
 * for a copy that no page fault can hold back (hazard_set_in_heap).
 */
bool hazard_drain(const uint32_t *keys, unsigned count, unsigned ms);

#endif
