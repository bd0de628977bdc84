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
 *   b. executes membarrier for all processes of ours                     (touch_barrier)
 *   c. looks, now and then, until no arena of a process that lives publishes the key (touch_owner).
 * Between 1 and 2 there is no fence instruction, only a compiler barrier: b is the other half of
 * the pair TOUCH. Either the toucher's step 1 is visible to c, or its step 2 sees the zero of a.
 * Entries are hazard pointers; once a look of c finds none for the key, none will appear that
 * counts.
 *
 * A toucher may be stopped between 1 and 4 for as long as somebody likes, so nobody who revokes
 * waits for c without a bound, or holds what others need meanwhile: requests are completed when a
 * later look finds nothing (object/mw.h), calls give up (memory/key.h).
 *
 * Entries are a resource of the process: a thread keeps the one it got last and finds another only
 * when that is in use (a touch within a touch, or more threads than entries: then it waits its turn, which
 * comes, see touch.c).
 */
#ifndef MEMORY_TOUCH_H
#define MEMORY_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* Set once, before the first key: this process's arena and slot. */
void touch_init(void *arena, uint32_t slot);
void touch_reset_after_fork(void);

/*
 * Makes all processes of ours pass a full barrier (membarrier): what any of their threads stored
 * before is visible here afterwards, and what this thread stored before is visible to what they load
 * afterwards. The costly half of the pairs TOUCH and WAKEUP.
 */
void touch_barrier(void);

/* False where there is no membarrier: touch_barrier then only waits a while. */
bool touch_barrier_works(void);

/* Returns the entry that now publishes `key` of the process in `slot`. Never fails. A thread holds three at most. */
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
 * Step c above, one look: the PID of a process that publishes the key, a key of ours that was
 * zeroed before the last touch_barrier; 0: none does. `visit` calls `check` with each arena of a
 * process that may be at our memory (own and peers'), under whatever protects them from being
 * unmapped, and returns the PID of the first for which that is true, or 0; the adapter gives it.
 * Never blocks.
 */
typedef bool touch_check(void *arena, uint64_t what); /* true: this arena publishes it */
typedef uint32_t touch_visitor(touch_check *check, uint64_t what);
void touch_set_visitor(touch_visitor *visit);
uint32_t touch_owner(uint32_t key);

/* How long one look should come after another: 0 for the first ones, then more and more, up to 5 ms. */
uint64_t touch_pause_ns(uint32_t looks);

/* Between two looks of a call that may block. False: it has lasted TOUCH_WAIT_MS. */
#define TOUCH_WAIT_MS 3000
struct touch_wait {
	uint32_t looks;
	uint64_t begin_ns;
};
bool touch_wait(struct touch_wait *wait);

/*
 * The same for keys that stay alive but were marked (KEY_MOVING), and gives up after so many
 * milliseconds. True: no other process touches any of them, nor this one where it cannot be held at the
 * pages (touch_begin_in_heap), that has not seen the mark.
 */
bool touch_drain(const uint32_t *keys, unsigned count, unsigned ms);

#endif
