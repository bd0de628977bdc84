/*
 * Adopt - moves the pages of regions into this process's heap, so that peers write and read them
 * with plain stores and loads, and moves them back when the last key to them dies. Peers on other
 * hosts have our responder do it.
 *
 * In:  requests of peers (adopt_request, adopt_want); the birth and death of keys; forks.
 * Out: arena_key.heap, and the flags MOVING and STAYS of arena_key.flags.
 *
 * The pump moves pages in (adopt_run), the thread that revokes the last key moves them out. Blocks
 * for the time of a copy. Nothing becomes impossible if pages stay where they are, only slower; so
 * whatever is in doubt stays: memory that is not plain, writers that cannot be held back.
 *
 * No write is lost by a move. Those who write to a region's pages are
 *   - threads of this process, in user mode or in the kernel, at the program's addresses: they fault
 *     at the range and wait (object/move.h). This holds for our responder, too, which goes on taking
 *     messages for keys that are MOVING: its thread waits, holding its QP's lock, until the move is
 *     done. The mover needs no QP's and no link's lock for that; and the pump cannot wait for itself,
 *     since while it moves it does nothing else, and takes nothing from the allocator, whose memory
 *     the range may hold.
 *   - peers, and our responder, by the range's keys, through the kernel (process_vm_writev looks pages up
 *     in advance) or through their mapping of the heap: neither faults here. So each key that overlaps the pages is marked
 *     MOVING, and then the mover waits until no peer publishes it, and nobody here for such a store
 *     (object/touch.h: the mark takes the part of the zeroed key, so either the toucher's entry is
 *     seen or it sees the mark). A peer that sees the mark sends a message instead, and our responder
 *     says that it takes the program's address, where it faults; the key itself is good all the time, and so is the
 *     answer. Nothing is held while the mover waits, so whoever has published a key gets done.
 * Keys are born and die under the lock that the mover holds all along (adopt_lock_keys), so none
 * that overlaps is missed. The wait is bounded: a peer that is stopped in the middle of a copy means
 * only that nothing is moved.
 *
 * heap changes only while the key is MOVING or dead and nobody touches it: who has published the
 * key, found it alive and not MOVING may use heap until touch_end.
 */
#ifndef OBJECT_ADOPT_H
#define OBJECT_ADOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"
#include "object/move.h"

/* The heap is sparse: so much address space, no memory. */
#define ADOPT_HEAP_BYTES (64ull << 30)
/* Smaller regions are not worth a page of their own. */
#define ADOPT_REGION_MIN 4096

extern struct lock adopt_lock;

/* What the user wants: VERBATIM_ADOPT is "never", "always" (even if not safe) or not set. */
enum move_permission adopt_wish(void);

/* Once per adapter, before the first key. The heap stays the caller's; `kick` makes the pump run. */
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
 * heap. The caller has published the key, found it alive and not MOVING, and writes before touch_end.
 */
char *adopt_map(const struct arena_key *entry, uint64_t host, size_t bytes);
/* So many bytes were written without that: requests the region when it pays. Never blocks. */
void adopt_want(uint32_t key, uint64_t length, size_t bytes);
/* Grants what was requested; only the pump calls it. */
void adopt_run(void);

/* Keys come to life and die between these two. */
static inline void adopt_lock_keys(void) ACQUIRES(adopt_lock)
{
	lock_acquire(&adopt_lock);
}

static inline void adopt_unlock_keys(void) RELEASES(adopt_lock)
{
	lock_release(&adopt_lock);
}

/* Sets heap of an entry that is about to come to life: its pages may be there for another key. */
void adopt_on_birth(struct arena_key *entry) REQUIRES(adopt_lock);
/* A key has died, and nobody touches it any more: its pages go back with the last. */
void adopt_on_death(struct arena_key *entry) EXCLUDES(adopt_lock);

/*
 * Around fork(): the child gets private copies, of the moment of the fork. The parent's thread waits
 * for them, some seconds at most.
 */
void adopt_before_fork(void) ACQUIRES(adopt_lock);
void adopt_in_parent(void) RELEASES(adopt_lock);
void adopt_in_child(void);

#endif
