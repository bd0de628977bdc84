/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nagle - Nagle's algorithm (RFC 896) for datagrams to other hosts.
 *
 * In:  posts to a UD QP; polls of the same thread.
 * Out: whether a datagram waits for more of its kind, to leave in one GSO batch with them.
 *
 * The first NAGLE_AT_ONCE posts to a QP since the thread's last poll that found nothing leave at
 * once, so a request or an answer is never held up; but none if the posts before that poll filled a
 * GSO batch, as a stream goes on. What the thread posts in a row behind them waits until
 *
 * - it fills a GSO batch, or one to another address follows;
 * - the thread finds no completion at its next poll, or arms a CQ;
 * - NAGLE_WAIT_NS have passed, for a thread that does neither: then another thread that polls sends
 *   it, or the progress thread, which may sleep until the end of a poll lease (a millisecond).
 *
 * A program that fills one batch after the other polls so rarely that it holds no lease. The timer
 * of each batch would call the progress thread, many thousand times a second, to contend with it
 * for the QP. So behind a batch that was filled the time is NAGLE_STREAM_WAIT_NS.
 *
 * A thread that posts and does not poll makes no more than NAGLE_WAITS_MAX datagrams wait.
 *
 * Each thread has a list of QPs of its own, by number: a QP that is destroyed meanwhile is not
 * found. The QP's lock guards what is in it.
 */
#ifndef SHM_NAGLE_H
#define SHM_NAGLE_H

#include <stdbool.h>
#include <stdint.h>

struct shm_qp;

#define NAGLE_AT_ONCE	     4
#define NAGLE_WAITS_MAX	     256
#define NAGLE_WAIT_NS	     50000ull
#define NAGLE_STREAM_WAIT_NS 1000000ull
#define NAGLE_QPS	     16 /* of one thread, with datagrams that wait */

struct nagle {
	uint32_t polls;	     /* a number for the time between two polls */
	uint32_t waits_left; /* datagrams that may still wait until the next poll */
	uint32_t count;
	uint32_t qpns[NAGLE_QPS];
};

/* Of this thread. */
extern _Thread_local struct nagle nagle __attribute__((tls_model("initial-exec")));

/* The UD QP's program has just posted. True: what is posted waits; false: it is to be issued. */
bool nagle_waits(struct shm_qp *lq);

/* Issues what waits at the QPs of this thread. No QP's lock is held. */
void nagle_flush(void);

/* The thread has found completions: it polls. */
static inline void nagle_on_completions(void)
{
	nagle.waits_left = NAGLE_WAITS_MAX;
}

/* The thread finds no completion, or arms a CQ. No QP's lock is held. */
static inline void nagle_on_poll(void)
{
	nagle.polls++;
	nagle.waits_left = NAGLE_WAITS_MAX;
	if (nagle.count)
		nagle_flush();
}

void nagle_reset_after_fork(void);

#endif
