/*
 * Progress thread - the thread that makes progress for a process whose program does not poll; and the
 * agreement between it and the threads that do.
 *
 * The arena's need_wakeup word tells peers whether a thread of this process looks at the rings:
 *   1  none: a peer that leaves something writes the wake eventfd
 *   0  the progress thread is awake, or a program's thread polls and holds the poll lease
 * A thread that polled in vain for a while takes the lease: it pushes the lease timer (timerfd, 1
 * ms) ahead of itself, every half millisecond, and the progress thread sleeps on. When it stops polling the
 * timer fires, and the progress thread looks, and sets need_wakeup.
 *
 * A thread that arms a CQ is about to sleep, so it gives back the lease if it was the one that took
 * or renewed it last. If that was another thread it is polling, within half a millisecond at least:
 * it takes what comes for the sleeper, too, and its lease lasts. Should it have stopped just then,
 * the lease ends by its timer.
 *
 * Barrier WAKEUP: the progress thread sets need_wakeup, executes a membarrier, and then looks at everything once
 * more before it sleeps. A peer stores its record, then loads need_wakeup, with no fence between. Either
 * the peer sees need_wakeup and writes the eventfd, or the progress thread's look sees the record.
 *
 * The ports' sockets are in an epoll descriptor of their own (ports_epoll), which the progress thread's epoll
 * watches: it *listens*. A packet would then wake the progress thread beside the thread that polls, so while
 * there is a lease it may stop listening; the sockets leave their epoll descriptor then, as to be called
 * for each packet costs the sender of it a quarter of a microsecond even if nobody is woken. Whether it
 * does is decided by evidence:
 *   - Each time that a poller finds packets by itself, listening was useless; so it was if the
 *     progress thread finds some while a thread of the program is sending, or was there microseconds ago: it
 *     would have come by. When that happened FINDS_MIN times more often than the progress thread was of use,
 *     the poller that renews the lease ends it.
 *   - When a lease runs out and packets lie there, the program does not poll when packets come (it
 *     waits for memory to change, say). Then the progress thread listens again, leases or not, and it takes
 *     twice as many finds to end that; a lease that runs out on empty sockets halves the number.
 * So a program that polls all the time has its packets without a wake-up; one that polls between
 * waits loses at most a lease now and then, and one that does not poll nothing.
 *
 * The ports are watched edge-triggered, so that a progress thread that finds a poller at a port
 * need not watch him: he has a lease, or is given one by the progress thread, and its end is a
 * look. (To wait for him to leave the port would take turns from him where both share a processor,
 * and he is there most of the time.) Woken by packets alone, the progress thread takes them and
 * sleeps on, without touching need_wakeup.
 *
 * Order LEASE: who takes or renews it stores lease_until, then clears need_wakeup, and sets the timer last. He
 * may be kept from his processor anywhere between, for longer than a lease, and the progress thread end the
 * lease and set need_wakeup meanwhile; whatever the word is then left at, the timer fires after it,
 * and the progress thread looks, and sets need_wakeup once more. So 0 outlives the last poller by a lease at
 * most.
 *
 * No packet is slept over. Before the progress thread waits it has looked until nothing was left,
 * or a thread was at the port and there is a lease, whose end is a look, whatever that thread left
 * behind (its turn is bounded). A packet that comes after that look is a new edge: each one is,
 * also while others lie there, because the kernel tells of each arrival. The look comes after the
 * progress thread began to listen, and to begin (EPOLL_CTL_ADD) is to look whether there is
 * something already. Should that fail, for want of memory, the progress thread looks and tries
 * again each millisecond. A poller that ends listening does so under listen_lock, only while the
 * lease is held, after the lease timer was set: so the timer fires, and the progress thread listens
 * again, or progress_thread_on_arm, which ends the lease first and then wakes the progress thread.
 * A port is found by looks before its socket is listened to (ports.c).
 *
 * What comes through memory is the pollers': a progress thread that finds a lease looks once, and leaves the
 * links to them. Beside them it would only take their locks, and their processor where they have
 * but one. The end of the lease is a look at the links, too.
 *
 * Before it sleeps it may keep polling for a moment (adapter/adaptive.h); for all others it is asleep by then.
 *
 * If packets keep coming to it while it keeps polling, and nothing else does, and nobody has a lease, it
 * *takes them alone*: it stops listening by itself, and looks at the ports as pollers do, and now
 * and then at what else its epoll tells. The progress thread does not wait for events in that
 * state: if there is a lease, or anything but packets calls it, or nothing has come for a moment,
 * it listens again first. What came meanwhile, or what another thread left at a port where it was
 * found (that gets no lease now: the progress thread is at the ports so often that who polls but
 * once would be taken for a poller), is told of by EPOLL_CTL_ADD itself. A poller that would end
 * listening finds it ended; his next renewal does it, if there is still reason to.
 *
 * Nobody starves: packets without end that wake the progress thread are served for a bounded time;
 * then they take turns with links, timers and what verbatimd tells. To look for a verbatimd that is
 * lost takes time, so between two attempts there is a pause, however often the progress thread is
 * called; and none is put off because of packets.
 *
 * Timers of the transport: who arms one while there is a lease leaves it to the pollers, and to the
 * progress thread when it ends the lease. Barrier TIMER: it stores the deadline, then loads lease_until; the
 * progress thread stores 0 there, executes a membarrier, then loads the deadline. With no lease, the timerfd
 * is set only if it is not going to fire before anyway.
 *
 * The same pair covers work that this process leaves itself (progress_thread_kick) and acknowledgements.
 */
#ifndef ADAPTER_PROGRESS_THREAD_H
#define ADAPTER_PROGRESS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "ctl/client.h"

/* Starts the thread, after ports_init. 0 or -errno. `wake_fd` is the process's wake eventfd. */
int progress_thread_start(struct ctl_client *ctl, struct arena_header *header, int wake_fd);

/* A thread polls; its last look began at `now`, CLOCK_MONOTONIC. */
void progress_thread_on_polling(uint64_t now_ns);

/* Threads poll, and will again; if they do not, the progress thread will look within a lease. */
bool progress_thread_has_lease(void);

/* A thread that polls has looked at the ports, and found packets or not; it was `now`. */
void progress_thread_on_look(uint64_t now_ns, bool found);

/* Around each sending of packets. */
void progress_thread_on_send_begin(void);
void progress_thread_on_send_end(void);

/* This thread arms a CQ: it will sleep, so its lease ends now. */
void progress_thread_on_arm(void);

/* There is work that only a look will find. */
void progress_thread_kick(void);

/* There is work that only the progress thread's own thread will do. */
void progress_thread_wake(void);

/* A retry timer of the local path, or one of the transport, is due earlier than all others of its kind. */
void progress_thread_deadline(uint64_t ns);
void progress_thread_roce_deadline(uint64_t ns);

void progress_thread_reset_after_fork(void);

#endif
