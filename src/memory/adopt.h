/*
 * Adopt - keeps pages of regions in this process's heap, where peers write and read them with plain
 * stores and loads. Peers on other hosts have our responder do it.
 *
 * In:  requests of peers (adopt_request, adopt_want); the birth and death of keys; forks.
 * Out: arena_key.heap and heap_edges, and the flags MOVING and STAYS of arena_key.flags.
 *
 * Nothing becomes impossible if pages stay where they are, only slower; so whatever is in doubt stays.
 * Only pages that lie wholly within a region move: its edges share theirs with who knows what.
 *
 * One rule: only the progress thread moves pages, a slice at a time, holding no lock, and looks after
 * everything else in between (adopt_run). Who needs them out (ibv_dereg_mr, fork) says so, and waits.
 * What moves is a *range*; of its pages the first `in` bytes are in the heap. Each turn moves one slice towards
 * where the range belongs by then: into the heap while a key covers it, out when none does, or a fork is about
 * to be made, or a slice was refused on the way in.
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
 * No write is lost. Who writes to the pages of a range that is not settled does it at the program's addresses, where
 * he waits in a page fault while a slice is held (memory/move.h); between slices he writes to whatever is there, which is
 * the truth. For
 *   - threads of this process write there, in user mode or in the kernel; where the kernel has no page faults,
 *     the slice is refused.
 *   - peers, and our responder, have other ways, by a key: the heap's mapping, or the kernel's (process_vm_writev
 *     looks pages up in advance). So each key that overlaps the range is MOVING from before the first slice on;
 *     none that is born meanwhile is born without (adopt_on_birth, under adopt_lock, which guards the tables).
 *     Who finds a key MOVING sends a message, if he is a peer, or takes the program's address, if he is our responder.
 *     Who found it not MOVING has published it before (memory/hazard.h: the mark takes the part of the zeroed key), and
 *     the first slice waits until he has withdrawn it; so it does for keys that are dying.
 * heap changes only while the key is MOVING or dead and nobody touches it: who has published the key, found it
 * alive and not MOVING may use heap until hazard_clear.
 *
 * Nobody waits for ever. The progress thread waits for nobody: it looks again at its next turn. It runs on a stack of
 * its own, without signals, and touches no memory but that and ours, while a slice is held. Who waits for it
 * holds nothing (it may run on the very pages), and goes on when the range is put off, or nothing has moved for
 * seconds. A fork then leaves the child copies of what could not leave (move_copy_for_child). Only the stack that it is
 * called on, and that thread's local memory, it waits for longer, up to 5 s: without them the child could not use a copy.
 */
#ifndef MEMORY_ADOPT_H
#define MEMORY_ADOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"
#include "memory/move.h"

/* The heap is sparse: so much address space, no memory. */
#define ADOPT_HEAP_BYTES (64ull << 30)
/* Smaller regions are not worth a page of their own. */
#define ADOPT_REGION_MIN 4096
/* What moves at a time: under a millisecond on an idle machine. */
#define ADOPT_SLICE_BYTES (1ull << 20)

#define ADOPT_NEVER UINT64_MAX

extern struct lock adopt_lock;

/* What the user wants: VERBATIM_ADOPT is "never", "always" (even if not safe) or not set. */
enum move_permission adopt_wish(void);

/* Once per adapter, before the first key. The heap stays the caller's; `kick` makes the progress thread run. */
void adopt_init(int heap_fd, uint64_t heap_bytes, void (*kick)(void));
/* The adapter came to nothing: there is no key. */
void adopt_fini(void);

/*
 * A peer wants the region of this key in the heap, sooner or later. False: never mind; it may ask again.
 * Never blocks.
 */
bool adopt_request(uint32_t key);

/*
 * For a peer, `bytes` of the region of `entry` are written at `host`, an address of the program's: where
 * they are in our own mapping of the heap, which is there whatever the program unmaps. NULL: not in the
 * heap, or not all. The caller has published the key, found it alive and not MOVING, and writes before hazard_clear.
 */
char *adopt_map(const struct arena_key *entry, uint64_t host, size_t bytes);
/* So many bytes were written without that: requests the region when it pays. Never blocks. */
void adopt_want(uint32_t key, uint64_t length, size_t bytes);

/*
 * One turn, by the progress thread alone: at most one slice. When the next is due, of CLOCK_MONOTONIC: 0 at once,
 * ADOPT_NEVER not before it is kicked.
 */
uint64_t adopt_run(uint64_t now_ns);

/* Keys come to life and die between these two. */
static inline void adopt_lock_keys(void) ACQUIRES(adopt_lock)
{
	lock_acquire(&adopt_lock);
}

static inline void adopt_unlock_keys(void) RELEASES(adopt_lock)
{
	lock_release(&adopt_lock);
}

/* Sets heap, and MOVING, of an entry that is about to come to life: its pages may be there for another key. */
void adopt_on_birth(struct arena_key *entry) REQUIRES(adopt_lock);
/* A key has died, and no thread holds a hazard on it any more: its pages go back after the last. Never blocks. */
void adopt_on_death(struct arena_key *entry) EXCLUDES(adopt_lock);

/*
 * The program may do with this memory what it likes from now on: waits until its pages are out, unless another key
 * needs them. They stay, good as before, if they cannot leave now. No lock is held; not on the progress thread.
 */
void adopt_wait_out(uint64_t addr, uint64_t length) EXCLUDES(adopt_lock);

/* Around fork(): what can leave the heap is out of it, and nothing moves meanwhile. */
void adopt_before_fork(void) EXCLUDES(adopt_lock);
void adopt_in_parent(void) EXCLUDES(adopt_lock);
void adopt_in_child(void);

#endif
