/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Poll lease - tells the progress thread that threads of the program poll, so that it can sleep on.
 *
 * A thread that has polled in vain for a while takes the lease: for LEASE_NS it promises to look at
 * links, ports and timers. It renews the lease while it goes on. The lease timer fires at the end:
 * the progress thread looks, and sets the arena's need_wakeup word. See docs/design/progress.md for
 * all that happens to a lease.
 *
 *   need_wakeup  1  no thread looks: a peer that leaves something writes the wake eventfd
 *                0  the progress thread is awake, or a thread polls and holds the lease
 *                2  the same as 1 for peers: the progress thread is away, in a call that takes
 * long; renewing the lease does not change it
 *
 * Order LEASE: renewing stores the lease, clears need_wakeup, and sets the timer last. The thread
 * may be preempted between these steps for longer than a lease, while the progress thread ends the
 * lease and sets need_wakeup. Then need_wakeup may be left at 0, but the timer fires after that and
 * the progress thread sets it once more. So 0 outlives the last poller by a lease at most.
 *
 * Barrier WAKEUP: the progress thread sets need_wakeup, executes a membarrier, and then looks at
 * everything once more before it sleeps. A peer stores its record, then loads need_wakeup, with no
 * fence between. Either the peer sees need_wakeup and writes the eventfd, or the look finds the
 * record.
 *
 * Barrier TIMER: a thread stores pending work (a deadline, work for its own process, an
 * acknowledgement), then loads the lease; if it is held, it wakes no thread. The progress thread
 * ends the lease, executes the same membarrier, then loads deadlines and looks. Either the thread
 * sees no lease and wakes the progress thread, or the progress thread finds the work.
 */
#ifndef ADAPTER_POLL_LEASE_H
#define ADAPTER_POLL_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* 0 or -errno. `header`: where need_wakeup is. */
int poll_lease_init(struct arena_header *header);

/* Readable from the end of the lease until the progress thread has read it (sources.h). */
int poll_lease_fd(void);

bool poll_lease_is_held(void);
/*
 * The end of the lease, CLOCK_MONOTONIC; 0: it is not held. Loaded after the caller's stores
 * (TIMER).
 */
uint64_t poll_lease_until_ns(void);

/*
 * The calling thread polls; its last look began at `now`. True: the lease was renewed. False: that
 * is not yet due, or another thread does it.
 */
bool poll_lease_renew(uint64_t now_ns);

/* The calling thread arms a CQ. True: its lease has ended. */
bool poll_lease_give_back(void);

/* The progress thread found another thread at a port: that thread gets the lease, if it is free. */
void poll_lease_lend(uint64_t now_ns);

/*
 * The progress thread is about to sleep: ends a lease that is due, sets need_wakeup, and orders
 * both before its next look. False: the lease lasts, and its timer is set.
 */
bool poll_lease_end(void);

/* The progress thread is awake, or back. */
void poll_lease_on_awake(void);

/*
 * The progress thread will be away. Peers wake the sleeper (base/sleeper.h) from here on, and write
 * the eventfd, which is read late. The caller looks at links once more (WAKEUP).
 */
void poll_lease_leave(void);
/*
 * Whether it is away. A thread that sleeps for events asks after sleeper_prepare, and if so, it
 * executes a membarrier and looks at links once more: a peer that came before the word was ASLEEP
 * has left its work before that look, and one that comes later wakes the thread. If it is not, the
 * progress thread looks once more (poll_lease_leave), and peers that come after that see the word.
 */
bool poll_lease_is_left(void);

void poll_lease_reset_after_fork(void);

#endif
