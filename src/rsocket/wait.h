/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wait - wakes the threads that sleep for an rsocket when another thread took their event.
 *
 * A sleeping thread polls the rsocket's completion channel and CM channel. Another thread may take
 * the event from there, and completions that both wait for. So each sleeper is also in the
 * rsocket's list of waiters, with an eventfd of its thread. A thread that takes an event or finds
 * completions kicks all waiters.
 *
 * Barrier WAIT is the rsocket's lock, which guards the list. A sleeper finds under it that nothing
 * is there, and enters the list. A thread that changes this takes the lock later, and finds the
 * sleeper in the list. An eventfd that was kicked stays readable until its thread reads it.
 */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include <poll.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"

struct waiter {
	struct list link;
	int fd; /* of the thread that waits; negative: it has none, and looks by itself */
};

#define WAIT_ANEW_MS 100

/*
 * The calling thread's eventfd, or -errno. Created at the first call; the thread's end closes it.
 */
int wait_fd(void);

/* Makes an eventfd unreadable. */
void wait_clear(int fd);

/*
 * How long poll(2) may sleep, in ms: until the deadline (CLOCK_MONOTONIC, 0: none),
 * wake_up_interval (config.h) at most, or WAIT_ANEW_MS for a thread without an eventfd, which is
 * not kicked. 0: the deadline has passed. fd: that of the thread, if other threads are to kick it.
 */
int wait_left_ms(int fd, uint64_t deadline_ns);

/* The caller holds the lock that guards the list. */
void wait_join(struct list *waiters, struct waiter *waiter, int fd);
void wait_leave(struct waiter *waiter);
void wait_kick(struct list *waiters);

/*
 * Cancellation: a call that sleeps is a cancellation point where it begins, and in wait_poll, where
 * its handlers (pthread_cleanup_push) leave the list of waiters and drop its references. Elsewhere
 * it holds locks. All other calls are UNCANCELLED, and do not sleep cancelled either.
 */
int wait_call_begin(void);
void wait_call_end(const int *before);

/* From this declaration to the end of its block. */
#define CANCELLED_ASLEEP                                                                           \
	__attribute__((cleanup(wait_call_end), unused)) const int cancelled_asleep =               \
		wait_call_begin()

/* poll(2), in which the thread is cancelled if the program lets it be within CANCELLED_ASLEEP. */
int wait_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
/* The same after wait_join. A thread that is cancelled leaves the list, which `lock` guards. */
int wait_poll_joined(struct waiter *waiter, struct lock *lock, struct pollfd *fds, nfds_t count,
		     int timeout_ms);

/* In the child of a fork: forgets the eventfds, which are the parent's. */
void wait_forget(void);

#endif
