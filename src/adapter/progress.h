/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress - what the program's own threads do for the adapter when they poll.
 *
 * In:  threads that find their CQs empty, or arm them.
 * Out: looks at links, ports and timers; a lease (adapter/poll_lease.h) for a thread that keeps
 *      polling.
 *
 * Any thread, without locks; its counters are thread-local.
 */
#ifndef ADAPTER_PROGRESS_H
#define ADAPTER_PROGRESS_H

#include <stdbool.h>

#include "object/channel.h"
#include "object/qp.h"
#include "roce/roce.h"
#include "shm/nagle.h"

/* There is an adapter to make progress for. Written by adapter.c. */
extern bool progress_running;

/*
 * Carries out what is due: arrived messages, posted work that had to wait, timers. Called by a
 * thread that found its CQ empty. Never blocks; does a bounded amount. No lock may be held.
 */
void adapter_progress(void);

/*
 * Takes all that has arrived for the QP, and waits for a thread that is taking it. Called before
 * the program ends the connection: all that the other end sent before completes with success, and
 * is acknowledged. No lock may be held.
 */
void adapter_catch_up(struct qp *qp);

/*
 * Called when a poll found no completion: sends the acknowledgements that this thread's
 * adapter_progress delayed in favour of the program's answer. True: it did, and has looked again
 * after that, so the CQ may have completions. No lock may be held.
 */
bool adapter_on_empty(void);

/* The calling thread has polled, and found completions without any progress. */
static inline void adapter_on_completions(void)
{
	nagle_on_completions();
	roce_on_completions();
}

/* The program arms a CQ, that is, it is about to sleep: the progress thread takes over at once. */
void adapter_on_arm(void);

/*
 * The calling thread waits for an event of the channel. Peers wake it in the place of the progress
 * thread, and it does that one's work (base/sleeper.h). 0 and the event, which counts as reported;
 * 0 and NULL: the caller has to wait in channel_take, because another thread sleeps so, for
 * instance. -1 and errno EINTR. A cancellation point.
 */
int adapter_sleep(struct channel *channel, struct cq **cq);

#endif
