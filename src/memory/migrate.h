/*
 * Migrate - moves pages of registered regions into this process's heap (a sealed memfd), where peers copy to and
 * from them with plain stores and loads. For peers on other hosts the responder does so.
 *
 * In:  requests of peers (migrate_request, migrate_want); the birth and death of keys; forks.
 * Out: arena_key.heap and heap_edges, and the flags MOVING and STAYS of arena_key.flags.
 *
 * Pages that stay where they are only make copies slower. So pages stay whenever anything is in doubt. Only pages
 * that lie wholly within a region migrate, because other data shares those at its edges.
 *
 * One rule: only the progress thread moves pages. It moves a slice at a time, holds no lock meanwhile, and serves
 * everything else in between (migrate_run). ibv_dereg_mr and fork ask for pages to leave, and wait. What moves is a
 * *range*; the first `in` bytes of it are in the heap. Each turn moves one slice towards where the range belongs:
 * into the heap while a key covers it; out when none does, before a fork, or when a slice was refused on the way in.
 *
 *   state       in      keys over it     the next turn
 *   asked for   0       MOVING           peers have left: moving. Not within 50 ms: gone, may be asked for again
 *   moving      0..all  MOVING           one more slice in, or out. All in: settled. All out: gone
 *   settled     all     heap published   belongs out: leaving
 *   leaving     all     MOVING           peers have left: moving
 *   put off     1..all  MOVING           a slice out was refused (pins, a futex: memory/busy.h), or peers do not
 *                                        leave: tried again after 10 ms, 20 ms, ... 1 s. The memory is as good as ever
 *   gone        0       heap 0           and STAYS if it was refused for good
 *
 * No write is lost:
 *   - Threads of this process write at the program's addresses. A write to a slice that moves waits in a page fault
 *     (memory/move.h); a write to any other slice reaches the memory that is there. Where the kernel writes without
 *     page faults, the slice is refused.
 *   - Peers and the responder have other ways, by a key: the heap's mapping, or process_vm_writev, which looks pages
 *     up in advance. So each key that overlaps the range is MOVING from before the first slice on, and so is each
 *     key that is born meanwhile (migrate_on_birth, under migrate_lock). A peer that finds a key MOVING sends a
 *     message; the responder takes the program's address. A copier that found it not MOVING has published a hazard
 *     before (memory/hazard.h: the mark stands for the zeroed key). The first slice waits until that hazard, and
 *     those on dying keys, are cleared.
 * arena_key.heap changes only while the key is MOVING or dead, and no hazard is on it. A copier that has published a
 * hazard, and found the key alive and not MOVING, may use heap until hazard_clear.
 *
 * No thread waits without a bound. The progress thread never waits here: it looks again at its next turn. It runs on
 * a stack of its own, without signals; while a slice moves it uses no memory but that and the library's. A thread that
 * waits for it holds nothing, as it may run on the very pages. It goes on when the range is put off, or when nothing
 * has moved for 5 s. A fork then leaves the child copies of what could not leave (move_copy_for_child). For the stack
 * it is called on, and that thread's local memory, it tries again for 5 s: without them no child can run.
 */
#ifndef MEMORY_MIGRATE_H
#define MEMORY_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"
#include "memory/move.h"

/* The heap is sparse: so much address space, no memory. */
#define MIGRATE_HEAP_BYTES (64ull << 30)
/* Smaller regions are not worth a page of their own. */
#define MIGRATE_REGION_MIN 4096
/* What moves at a time: under a millisecond on an idle machine. */
#define MIGRATE_SLICE_BYTES (1ull << 20)

#define MIGRATE_NEVER UINT64_MAX

extern struct lock migrate_lock;

/* What the user wants: VERBATIM_MIGRATE is "never", "always" (even if not safe) or not set. */
enum move_permission migrate_wish(void);

/* Once per adapter, before the first key. The heap stays the caller's; `kick` makes the progress thread run. */
void migrate_init(int heap_fd, uint64_t heap_bytes, void (*kick)(void));
/* The adapter came to nothing: there is no key. */
void migrate_fini(void);

/*
 * A peer wants the region of this key in the heap, sooner or later. False: never mind; it may ask again.
 * Never blocks.
 */
bool migrate_request(uint32_t key);

/*
 * For a peer, `bytes` of the region of `entry` are written at `host`, an address of the program's: where
 * they are in our own mapping of the heap, which is there whatever the program unmaps. NULL: not in the
 * heap, or not all. The caller has published the key, found it alive and not MOVING, and writes before hazard_clear.
 */
char *migrate_map(const struct arena_key *entry, uint64_t host, size_t bytes);
/* So many bytes were written without that: requests the region when it pays. Never blocks. */
void migrate_want(uint32_t key, uint64_t length, size_t bytes);

/*
 * One turn, by the progress thread alone: at most one slice. When the next is due, of CLOCK_MONOTONIC: 0 at once,
 * MIGRATE_NEVER not before it is kicked.
 */
uint64_t migrate_run(uint64_t now_ns);

/* Keys come to life and die between these two. */
static inline void migrate_lock_keys(void) ACQUIRES(migrate_lock)
{
	lock_acquire(&migrate_lock);
}

static inline void migrate_unlock_keys(void) RELEASES(migrate_lock)
{
	lock_release(&migrate_lock);
}

/* Sets heap, and MOVING, of an entry that is about to come to life: its pages may be there for another key. */
void migrate_on_birth(struct arena_key *entry) REQUIRES(migrate_lock);
/* A key has died, and no thread holds a hazard on it any more: its pages go back after the last. Never blocks. */
void migrate_on_death(struct arena_key *entry) EXCLUDES(migrate_lock);

/*
 * The program may do with this memory what it likes from now on: waits until its pages are out, unless another key
 * needs them. They stay, good as before, if they cannot leave now. No lock is held; not on the progress thread.
 */
void migrate_wait_out(uint64_t addr, uint64_t length) EXCLUDES(migrate_lock);

/* Around fork(): what can leave the heap is out of it, and nothing moves meanwhile. */
void migrate_before_fork(void) EXCLUDES(migrate_lock);
void migrate_in_parent(void) EXCLUDES(migrate_lock);
void migrate_in_child(void);

#endif
