/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeper - the thread of a program that peers wake in the place of its process's progress thread.
 *
 * A program that waits for a completion sleeps in ibv_get_cq_event. Two wake-ups one after the
 * other would cost twice as much as one: the peer wakes the progress thread, and that the program's
 * thread. So one thread of the program sleeps in a futex that peers can reach, and does itself what
 * the progress thread would have done (adapter_sleep).
 *
 * The futex is a word in the page of the doorbell (shm/doorbell.h), which peers write:
 *
 * | state  | event                                             | next   |
 * | ------ | ------------------------------------------------- | ------ |
 * | NONE   | sleeper_prepare                                   | ASLEEP |
 * | ASLEEP | a peer, or a thread of the process, wakes it      | WOKEN  |
 * | ASLEEP | a peer, but no thread sleeps in the futex (yet)   | NONE   |
 * | any    | the thread is awake, and will look (sleeper_awake) | NONE   |
 *
 * Who has left work, and has to wake the process (need_wakeup), calls sleeper_wake_other. In WOKEN
 * there is nothing to do: the thread leaves WOKEN before it looks. In NONE, or if the futex call
 * has woken no thread, the peer writes the wake eventfd: the thread may be awake or cancelled. So
 * no work depends on a thread that was not woken by it.
 *
 * FUTEX_WAIT without a time-out goes on after a signal handler with SA_RESTART, like read(2)
 * (signal(7)); poll(2) does not.
 */
#ifndef BASE_SLEEPER_H
#define BASE_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* `word` NULL: no thread can sleep so. */
void sleeper_init(_Atomic uint32_t *word);
void sleeper_reset_after_fork(void);

/* The calling thread becomes the sleeper. False: another thread is, or none can be. */
bool sleeper_begin(void);
void sleeper_end(void);

/*
 * The calling thread, the sleeper, prepares, then looks whether there is reason to sleep. If it is
 * woken in between, sleeper_wait returns at once.
 */
void sleeper_prepare(void);

/*
 * 0: woken, or with no reason. -1 and errno EINTR: a signal handler without SA_RESTART has run. A
 * cancellation point: `undo` runs before the thread ends.
 */
int sleeper_wait(void (*undo)(void *), void *arg);

/* Whoever finds WOKEN until here counts on the look that follows. */
void sleeper_awake(void);

/* A thread of the process, or the sleeper itself, has made an event for the sleeper. */
void sleeper_wake(void);

/* A peer. False: it has to wake the progress thread. */
bool sleeper_wake_other(_Atomic uint32_t *word);

#endif
