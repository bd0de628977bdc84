/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeper - the thread of a program that peers wake in the place of its process's progress thread.
 *
 * A program that waits for a completion sleeps in ibv_get_cq_event. Two wake-ups one after the
 * other would cost twice as much as one: the peer wakes the progress thread, and that the program's
 * thread. So one thread of the program sleeps in a futex that peers can reach, and does itself what
 * the progress thread would have done (adapter_sleep).
 *
 * The futex is a word in the page of the doorbell (shm/doorbell.h), which peers write: a state, and
 * above it the number n of the sleep.
 *
 * | state     | event                                                 | next      |
 * | --------- | ----------------------------------------------------- | --------- |
 * | any       | sleeper_prepare                                       | ASLEEP(n) |
 * | ASLEEP(n) | a peer is about to wake the thread (FUTEX_WAKE)       | WAKING(n) |
 * | WAKING(n) | that peer has woken it                                | WOKEN(n)  |
 * | WAKING(n) | that peer has woken no thread: none slept there (yet) | NONE      |
 * | any       | a thread of the process has made an event for it      | TOLD      |
 * | any       | the thread is awake, and will look (sleeper_awake)    | NONE      |
 *
 * Who has left work, and has to wake the process (need_wakeup), calls sleeper_wake_other. It writes
 * the wake eventfd, and so wakes the progress thread, unless it has itself woken a thread, or finds
 * WOKEN. Why no work is slept over:
 *
 * - WOKEN(n) is there only between the n-th sleep and the look that follows. It comes from
 *   WAKING(n), and that from ASLEEP(n), which sleeper_prepare alone stores, once; a peer that is
 * late with its part of sleep n does not change the word of another sleep. (Numbers repeat after
 * 2^29 sleeps: hours.)
 * - Barrier SLEEPER: all changes of the word are atomic read-modify-writes, also that of who finds
 *   WOKEN and leaves it as it is. So sleeper_awake has read what they wrote, or what followed from
 *   it, and the look finds the work that they had left before.
 * - Who finds WAKING or TOLD writes the eventfd. A peer may be stopped or killed in WAKING, before
 *   its FUTEX_WAKE; a thread of the process may store TOLD when the sleeper has looked.
 * - A sleeper that leaves without a look (there was an event already, it is cancelled, a signal
 *   handler has left by longjmp) gives its work to the progress thread: sleeper_end says whether
 *   somebody counts on it.
 *
 * A wake-up is for all threads in the futex, as a thread of another process may wait there, too. If
 * that is the only one that it has woken, the sleeper was on its way into the futex, which it then
 * does not enter, or out of it: it looks, or leaves as said.
 *
 * A peer that writes nonsense to the word, or waits in the futex, delays what others leave until
 * the progress thread runs for another reason, as it could by reading the wake eventfd. It does not
 * delay events that threads of the process make: sleeper_wake does not look at the state.
 *
 * The thread is the sleeper from sleeper_begin to sleeper_end, in its role, a number that is used
 * once. It may lose the role between these: a signal handler forks, and this is the child; or a
 * signal handler calls verbs. And it may leave without sleeper_end: by a handler's longjmp, which
 * sleeper_left tells its next call of a verb, or because it is cancelled. A destructor of
 * thread-specific data ends the role of a thread that ends. No cleanup handler does: longjmp would
 * leave it registered (pthread_cleanup_push(3)).
 *
 * FUTEX_WAIT without a time-out goes on after a signal handler with SA_RESTART, like read(2)
 * (signal(7)); poll(2) does not.
 */
#ifndef BASE_SLEEPER_H
#define BASE_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * `word` NULL: no thread can sleep so. `ended` has to wake the progress thread: a thread has ended,
 * and was the sleeper.
 */
void sleeper_init(_Atomic uint32_t *word, void (*ended)(void));
void sleeper_reset_after_fork(void);

/* The calling thread becomes the sleeper: its role. 0: another thread is, or none can be. */
uint32_t sleeper_begin(void);
bool sleeper_is(uint32_t role);
/*
 * True: a peer counts on a look of the thread, which has not looked since, so the caller has to
 * wake the progress thread. A role that is lost already is not ended.
 */
bool sleeper_end(uint32_t role);

/*
 * The calling thread was in sleeper_wait, and has lost its role: maybe before it prepared, so peers
 * may have woken it in the place of another sleeper, and count on it. True: the caller has to wake
 * the progress thread.
 */
bool sleeper_lost(void);

/* The role that the calling thread has begun and not ended; 0: none. */
extern _Thread_local uint32_t sleeper_own_role __attribute__((tls_model("initial-exec")));

/*
 * The calling thread is in no sleep that it means to go on with: if it is the sleeper, a signal
 * handler has left the sleep by longjmp, or runs in it. Ends the role; the caller has to wake the
 * progress thread, which looks in its place.
 */
void sleeper_leave(void);
static inline bool sleeper_left(void)
{
	if (!sleeper_own_role)
		return false;
	sleeper_leave();
	return true;
}

/*
 * The calling thread, the sleeper, prepares, then looks whether there is reason to sleep. If it is
 * woken in between, sleeper_wait returns at once. Returns what that needs: the word.
 */
uint32_t sleeper_prepare(uint32_t role);

/*
 * 0: woken, or with no reason. -1 and errno EINTR: a signal handler without SA_RESTART has run. A
 * cancellation point.
 */
int sleeper_wait(uint32_t asleep);

/*
 * Whoever finds WOKEN until here counts on the look that follows. True: somebody may. False: nobody
 * does, or the role is lost.
 */
bool sleeper_awake(uint32_t role);

/* A thread of the process, or the sleeper itself, has made an event for the sleeper. */
void sleeper_wake(void);

/* A peer. False: it has to wake the progress thread. */
bool sleeper_wake_other(_Atomic uint32_t *word);

#endif
