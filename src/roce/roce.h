/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport - the IB transport between hosts: struct qp_path for RC, UC and XRC, and datagrams.
 *
 * A library without I/O, clock or thread: packets come in as arguments; packets and the next
 * deadline go out through struct roce_env, which also has the clock. So the adapter runs it on
 * sockets, a simulator on a virtual clock, and a fuzzer feeds it.
 *
 * This is the entry: struct qp_path, received packets, and timers that are due.
 * See docs/design/transport.md: the floors below. Calls go down only, except qp_fail, which comes
 * back through struct qp_path.
 *
 * Threads: a QP's lock guards its state; each function without a QP argument takes it. A thread
 * that received packets for QPs remembers these by number until its roce_flush, which does not find
 * QPs that were destroyed meanwhile. Within a QP's lock only those of bursts (pool) and timers are
 * taken, for a few instructions each, and locks of roce_env's functions. A key is published
 * (memory/hazard.h) only from the moment that a packet points to its memory until env.send returns,
 * so its deregistration waits for no peer.
 */
#ifndef ROCE_ROCE_H
#define ROCE_ROCE_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"
#include "roce/roce_env.h"
#include "udp/wire.h"

struct roce_qp;

/* No timer is armed. */
#define TRANSPORT_NEVER UINT64_MAX

void roce_init(const struct roce_env *env);
void roce_reset_after_fork(void);

extern const struct qp_path roce_path; /* RC, UC, XRC */

/* NULL: the QP uses another path, or has no destination yet. */
static inline struct roce_qp *roce_of(const struct qp *qp)
{
	return qp->path == &roce_path ? qp->path_data : NULL;
}

/*
 * Handles a received packet. Any thread, without locks held; packets of one QP in the order of the
 * wire. A bad packet is only dropped. The caller calls roce_flush afterwards.
 */
void roce_receive(const struct wire_arrival *arrival);

/*
 * Sends what roce_receive deferred, to send it once a burst: acknowledgements, and requests for
 * which the window has room now. The same thread, without locks.
 */
void roce_flush(void);

/*
 * True: requests that this thread posted wait for its next roce_flush, or for an acknowledgement.
 */
bool roce_owes(void);

/*
 * How many more posts this thread may leave to its next roce_flush. A thread that posts and does
 * not poll soon reaches 0; then its requests are sent at once.
 */
#define ROCE_WAITS_MAX 256
extern _Thread_local uint32_t roce_waits_left __attribute__((tls_model("initial-exec")));

/* The thread has found completions, maybe of another thread's looks: it polls. */
static inline void roce_on_completions(void)
{
	roce_waits_left = ROCE_WAITS_MAX;
}

/*
 * The same, but acknowledgements wait until this thread posts to their QP, or for its next
 * roce_flush, so that the program's answer goes first. True: some wait. roce_flush should follow
 * soon; otherwise a timer sends them some 100 us after `now_ns`.
 */
bool roce_flush_urgent(uint64_t now_ns);

/* When the next timer is due, CLOCK_MONOTONIC ns, or TRANSPORT_NEVER. Any thread, no lock. */
uint64_t roce_deadline_ns(void);

/* Handles timers that are due. No lock of a QP may be held. */
void roce_run(uint64_t now_ns);

/* base/check.h: a QP, whose lock is held, between two packets, posts or timers. */
void roce_check(const struct qp *qp);

#endif
