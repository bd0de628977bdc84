/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hold - keeps all threads of the program standing in verbs while pages move (memory/move.h), where
 * the kernel gives no userfaultfd: to ordinary users, and in containers.
 *
 * In:  threads of the program in verbs, which have nothing to do or wait for the progress thread.
 * Out: hold_begin: all of them stand, and none goes on before hold_end.
 *
 * A thread that stands runs no signal handler, and uses only its stack, its thread-local memory and
 * this library's (hold_covers). A thread that does not stand may write to any page, so pages move
 * only while hold_begin says true. Threads of the program can only be made by threads of the
 * program. So their number, read while none of them can go, stays true.
 *
 * Only the progress thread begins and ends a hold. See docs/design/one-sided.md.
 */
#ifndef MEMORY_HOLD_H
#define MEMORY_HOLD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* While a thread stands: on its stack. */
struct hold_stay {
	sigset_t signals; /* its mask before */
	int cancel_state; /* likewise */
	int place;	  /* -1: it does not stand */
};

/* The thread holds no lock. Cannot fail: with too many threads, none is held. */
void hold_stand(struct hold_stay *stay);
/*
 * Waits for the end of a hold, which lasts no longer than some slices (migrate_run). No other hold
 * begins before the thread is gone.
 */
void hold_go(struct hold_stay *stay);

/* A futex: 1 while the progress thread wants the program's threads to stand. */
extern _Atomic uint32_t hold_wanted;

void hold_pause(void);

/*
 * In verbs that are called often, by threads that hold no lock: stands for a moment if that is
 * wanted.
 */
static inline void hold_point(void)
{
	if (atomic_load_explicit(&hold_wanted, memory_order_relaxed))
		hold_pause();
}

/* Once: `kick` makes the progress thread run. */
void hold_init(void (*kick)(void));
void hold_reset_after_fork(void);

/*
 * Progress thread. True: all threads of the program stand. Each then calls hold_end. Never blocks.
 */
bool hold_begin(void);
void hold_end(void);

/* The calling thread's control block in the C library, errno, and what the kernel stores (rseq). */
void hold_find_thread_local(uintptr_t *start, uintptr_t *end);

/* During a hold: a standing thread may use pages of [start, end). */
bool hold_covers(uintptr_t start, uintptr_t end);

/*
 * A thread runs that the library has made besides the progress thread. It ends with the process,
 * has all signals blocked, and uses only this library's memory and sockets, so it need not stand.
 */
void hold_add_own_thread(void);

/* The program has one thread. Takes some microseconds. */
bool hold_is_alone(void);

/*
 * Progress thread: asks the program's threads to stand while that is needed. A program that has
 * more than one is asked for some milliseconds at a time, and ever more rarely if they do not come
 * together; one with many is not asked. Returns when to be called again, CLOCK_MONOTONIC.
 */
#define HOLD_NEVER UINT64_MAX
uint64_t hold_ask(bool needed, uint64_t now_ns);

#endif
