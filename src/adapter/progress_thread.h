/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress thread - the thread that makes progress for a process whose program does not poll.
 *
 * In:  the sources of progress (adapter/sources.h).
 * Out: work done while no thread of the program polls, when a peer, the kernel or a timer wakes it.
 *      Other threads wake it through adapter/wakeup.h.
 *
 * One a process, made by the first ibv_open_device; it ends with the process. It blocks all
 * signals.
 *
 * Its round:
 *   1. It polls all slow sources.
 *   2. It looks at links, ports and timers until nothing is left, ROUNDS_AT_ONCE times at most.
 *   3. It ends the poll lease if that is due, listens to packets again, and looks once more
 *      (adapter/poll_lease.h, adapter/listening.h). Had that look found anything, the round begins
 *      anew.
 *   4. It keeps polling for a moment if that pays (adapter/adaptive.h), then sleeps in epoll_wait
 *      until a source calls or is due. Peers take it for asleep in both. If only packets call it,
 *      it takes them and sleeps on; need_wakeup stays as it is.
 *
 * While threads poll and hold the lease, it looks once when it is called, and leaves the links to
 * them: it would compete for their locks and, on one processor, for their time. At the end of the
 * lease it looks at the links, too. If it finds a thread at a port, it leaves the port to that
 * thread, which has the lease or is lent it. It does not wait for that thread: where the two share
 * a processor, the wait would take its time.
 *
 * No source starves: a stream of packets is served for WIRE_ROUNDS rounds, or ALONE_NS, and then
 * takes turns with all others. Looking for a lost verbatimd takes time, so there are pauses between
 * two attempts, however often the progress thread is called; and packets delay no attempt.
 */
#ifndef ADAPTER_PROGRESS_THREAD_H
#define ADAPTER_PROGRESS_THREAD_H

#include "base/arena.h"
#include "ctl/client.h"

/* Starts the thread, after ports_init. 0 or -errno. `wake_fd` is the process's wake eventfd. */
int progress_thread_start(struct ctl_client *ctl, struct arena_header *header, int wake_fd);

void progress_thread_reset_after_fork(void);

#endif
