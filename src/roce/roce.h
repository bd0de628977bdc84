/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transport - the IB transport between hosts: struct qp_path for RC, UC and XRC, and
 * datagrams.
 *
 * A library without I/O, clock or thread: packets come in as arguments, packets and the next
 * deadline go out through struct roce_env, which also tells the time. So the adapter puts it
 * on sockets, a simulator on a virtual clock, and a fuzzer feeds it.
 *
 * This is the entry: struct qp_path, packets that came, and timers that are due. The floors below
 * it are listed in docs/design/transport.md. Calls go down only, but for qp_fail, which comes back
 * through struct qp_path.
 *
 * Threads: a QP's state is only touched with its lock, which each function takes that is not given
 * a QP. A thread that received for QPs remembers them by number until its roce_flush; they may be
 * destroyed meanwhile, and are not found then. Within a QP's lock only those of bursts (pool) and
 * timers are taken, for a few instructions each, and whatever roce_env needs. A key is published
 * (memory/hazard.h) only from the moment that a packet points to its memory until env.send returns,
 * so that its deregistration waits for no peer.
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

/* NULL: the QP takes another path, or has no destination yet. */
static inline struct roce_qp *roce_of(const struct qp *qp)
{
	return qp->path == &roce_path ? qp->path_data : NULL;
}

/*
 * A packet came. Any thread, without locks held; packets of one QP in the order of the wire.
 * Whatever is in it, the worst that follows is that it is dropped. The caller calls
 * roce_flush afterwards.
 */
void roce_receive(const struct wire_arrival *arrival);

/*
 * Sends what roce_receive put off so that it is sent once a burst: acknowledgements, and what
 * the window now lets go. The same thread, without locks.
 */
void roce_flush(void);

/*
 * True: requests that this thread posted wait for its next roce_flush, or for an acknowledgement.
 */
bool roce_owes(void);

/*
 * The same, but acknowledgements wait until this thread posts to their QP, or for its next
 * roce_flush, so that what the program does about the data that came goes first. True: some do.
 * It should not be long; a timer sends them otherwise, some 100 us after `now_ns`.
 */
bool roce_flush_urgent(uint64_t now_ns);

/* When the next timer is due, CLOCK_MONOTONIC ns, or TRANSPORT_NEVER. Any thread, no lock. */
uint64_t roce_deadline_ns(void);

/* Runs what is due. No lock of a QP may be held. */
void roce_run(uint64_t now_ns);

/* base/check.h: a QP, whose lock is held, between two packets, posts or timers. */
void roce_check(const struct qp *qp);

#endif
