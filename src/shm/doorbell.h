/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doorbell - how a process with many peers learns which of its links to look at, without looking at
 * all of them in each poll.
 *
 * In:  peers, and threads of this process, that leave work at a link that is cold: one that this
 *      process's pollers do not look at (arena_header.cold).
 * Out: the slots of these links.
 *
 * The bell is the first page of a process's heap file (memory/heap.h), which its peers map
 * writable. A peer that writes nonsense there causes looks in vain, or delays work of links that
 * are cold until the next turn of the progress thread, which looks at all of them.
 *
 * Barrier BELL: who leaves work stores it, then loads the link's bit of `cold`, with only a
 * compiler barrier in between. Who makes the link cold sets the bit, executes hazard_barrier (the
 * other half), and looks at the link once more. So that look finds the work, or the bit is seen and
 * the bell rings.
 *
 * Barrier BELL-2: who rings stores its slot, then `rung`. Who takes clears `rung`, then loads the
 * slots. All four are sequentially consistent. So a slot that this load does not see is followed by
 * a `rung` that is stored after the clearing, and stays.
 *
 * Any thread; no locks.
 */
#ifndef SHM_DOORBELL_H
#define SHM_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

#define DOORBELL_WORDS (SLOT_COUNT / 64)
#define DOORBELL_BYTES 4096

struct doorbell {
	_Alignas(64) _Atomic uint32_t rung; /* stored after `slots`, cleared before they are read */
	_Alignas(64) _Atomic uint64_t slots[DOORBELL_WORDS];
	_Alignas(64) _Atomic uint32_t sleeper; /* a futex: base/sleeper.h */
};

/* This process's bell; without one no link is made cold. */
void doorbell_init(int heap_fd, void *arena, uint32_t slot);
uint32_t doorbell_slot(void);
void doorbell_reset_after_fork(void);

/*
 * Of a heap's file, which keeps its length. NULL: there is none, it is too short for a bell, or it
 * cannot be mapped. doorbell_unmap undoes it.
 */
struct doorbell *doorbell_map(int heap_fd);
void doorbell_unmap(struct doorbell *bell);

extern struct doorbell *doorbell_own;	     /* NULL: none */
extern struct arena_header *doorbell_header; /* of this process; NULL: no bell */

static inline void doorbell_ring(struct doorbell *bell, uint32_t slot)
{
	atomic_fetch_or(&bell->slots[slot / 64], 1ull << slot % 64);
	atomic_store(&bell->rung, 1);
}

static inline bool doorbell_is_rung(void)
{
	return doorbell_own && atomic_load_explicit(&doorbell_own->rung, memory_order_relaxed);
}

/* Calls `each` for each slot that rang since the last call. */
void doorbell_take(void (*each)(uint32_t slot));

/* Whether pollers of this process look at the links to `slot`. */
void doorbell_set_cold(uint32_t slot, bool cold);

static inline bool doorbell_is_cold(uint32_t slot)
{
	return atomic_load_explicit(&doorbell_header->cold[slot / 64], memory_order_relaxed) >>
		       slot % 64 &
	       1;
}

#endif
