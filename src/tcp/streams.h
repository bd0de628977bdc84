/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams - the TCP sockets of this process's iWARP connections, as a source of progress.
 *
 * In:  sockets of established connections (iwarp/handover.h); calls of threads that poll, and of
 * the progress thread. Out: the engine's struct iwarp_env on those sockets; the end of each
 * connection, to librdmacm.
 *
 * A stream belongs to one QP, and is found by its QP's index. It is only used with that QP's lock,
 * so two threads never read one socket at the same time, and the bytes reach the engine in order.
 *
 * A stream that has ended leaves the table under the QP's lock (no thread finds it any more), and
 * goes to the progress thread. That one tells librdmacm, and closes the socket once the peer has
 * closed its direction, or no byte has moved for STREAMS_LINGER_NS: closed at once, a socket with
 * unread bytes would send a reset, which drops what the peer has not read, such as a TERMINATE.
 *
 * Locks: qp->lock, within it the lock of the lists, which is innermost.
 */
#ifndef TCP_STREAMS_H
#define TCP_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iwarp/mpa_startup.h"
#include "object/qp.h"

/* Of a connected QP, as iwcm sets them: iWARP has no rights of a QP that its program chooses. */
#define STREAMS_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define STREAMS_NEVER	  UINT64_MAX
#define STREAMS_LINGER_NS 5000000000ull /* for the peer's FIN, after this end's */

struct streams_env {
	void (*wake)(void); /* wakes the progress thread, for streams_service */
	/* around each send of a thread (adapter/listening.h) */
	void (*send_begin)(void);
	void (*send_end)(void);
};

/*
 * Once per process, before streams_init: a fork's child then has the stream of each socket that it
 * has a copy of. Takes no lock when a thread forks.
 */
void streams_watch_forks(void);

/* Once per adapter. 0 or -errno. */
int streams_init(const struct streams_env *env);

/* Readable while a stream has bytes, or room that its QP waits for; -1: there is none. */
int streams_epoll(void);

/* Whether the QP's type and state are those that streams_attach takes, and it has no stream. */
bool streams_may_attach(const struct qp *qp) REQUIRES(qp->lock);

/*
 * Gives the QP its stream, and moves it to RTS; see verbatim_iwarp_attach. 0 or -errno; -EINVAL
 * with a cause.
 */
int streams_attach(struct qp *qp, int fd, const struct mpa_agreed *agreed, void (*ended)(void *arg),
		   void *arg) REQUIRES(qp->lock);

/*
 * Ends the QP's stream if it was attached with this `arg`: in good order, or by moving the QP to
 * ERR.
 */
void streams_disconnect(struct qp *qp, const void *arg, bool abort) REQUIRES(qp->lock);

/* The same in good order, by the progress thread. */
void streams_disconnect_later(struct qp *qp, const void *arg) REQUIRES(qp->lock);

extern _Atomic uint32_t streams_count; /* streams in use */

static inline bool streams_any(void)
{
	return atomic_load_explicit(&streams_count, memory_order_acquire) != 0;
}

/*
 * Takes a bounded number of bytes: of the streams that had some lately, and with `all`, or where a
 * QP waits for room, of those that the kernel names. True: some came, or left. No lock may be held.
 */
bool streams_progress(bool all);

/* Takes what has arrived for this QP. No lock may be held. */
void streams_catch_up(struct qp *qp);

/* Progress thread: streams that ended, and those with something due. */
bool streams_service(void);
uint64_t streams_due_ns(void); /* CLOCK_MONOTONIC, or STREAMS_NEVER */

/*
 * Closes the child's copies of all sockets that streams_attach was given, wherever the parent's
 * threads were: also of those that were closed while it forked.
 */
void streams_reset_after_fork(void);

#endif
