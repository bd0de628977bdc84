/*
 * Touch - how memory may be revoked while other threads and processes copy to and from it
 * without locks.
 *
 * Whoever is about to touch memory behind a key
 *   1. publishes {owner's slot, key} in an entry of its own arena         (touch_begin)
 *   2. then loads the key's entry and checks it                          (key_check, mr_check)
 *   3. copies
 *   4. withdraws the entry (release)                                     (touch_end)
 * Whoever revokes a key
 *   a. zeroes arena_key.key
 *   b. executes membarrier for all processes of ours                     (touch_revoke)
 *   c. waits until no arena of a process that might reach it publishes the key.
 * Between 1 and 2 there is no fence instruction, only a compiler barrier: b is the other half of
 * the pair TOUCH. Either the toucher's step 1 is visible to c, or its step 2 sees the zero of a.
 *
 * Entries are a resource of the process: a thread keeps the one it got last and finds another only
 * when that is in use (a signal handler, or more threads than entries: then it waits its turn).
 */
#ifndef OBJECT_TOUCH_H
#define OBJECT_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* Set once, before the first key: this process's arena and slot. */
void touch_init(void *arena, uint32_t slot);
void touch_reset_after_fork(void);

/*
 * Makes all processes of ours pass a full barrier (membarrier): what any of their threads stored
 * before is visible here afterwards, and what this thread stored before is visible to what they load
 * afterwards. The costly half of the pairs TOUCH and DUTY.
 */
void touch_barrier(void);

/* False where there is no membarrier: touch_barrier then only waits a while. */
bool touch_barrier_works(void);

/* Returns the entry that now publishes `key` of the process in `slot`. Never fails. */
struct arena_touch *touch_begin(uint32_t slot, uint32_t key);

/*
 * The same for a key of our own whose pages may be touched where no page fault holds back who does: in the
 * heap, or by process_vm_writev. Who then takes another way says so first.
 */
struct arena_touch *touch_begin_in_heap(uint32_t slot, uint32_t key);
void touch_leave_heap(struct arena_touch *touch);

static inline void touch_end(struct arena_touch *touch)
{
	atomic_store_explicit(&touch->what, 0, memory_order_release);
}

/*
 * The second half of revocation: b and c above. `visit` calls `check` with each arena that might
 * publish the key (own and peers'), under whatever protects them from being unmapped, and is given
 * by the adapter (touch_set_visitor). Blocks, for as long as a copy lasts.
 */
typedef bool touch_check(void *arena, uint64_t what); /* true: this arena publishes it */
typedef bool touch_visitor(touch_check *check, uint64_t what); /* true: some arena does */
void touch_set_visitor(touch_visitor *visit);
void touch_revoke(uint32_t key);

/*
 * The same for keys that stay alive but were marked (KEY_MOVING), and gives up after so many
 * milliseconds. True: no other process touches any of them, nor this one where it cannot be held at the
 * pages (touch_begin_in_heap), that has not seen the mark.
 */
bool touch_drain(const uint32_t *keys, unsigned count, unsigned ms);

#endif
