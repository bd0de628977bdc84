/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress - processes the records and acknowledgements that arrived on a link.
 *
 * In:  the link's rings.
 * Out: requests executed, answers taken, blocked QPs issued again.
 *
 * Any thread may call it, without locks held. If another thread is at the link, it returns at once.
 * It does a bounded amount of work.
 */
#ifndef SHM_PROGRESS_H
#define SHM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp.h"
#include "shm/link.h"

/* 1: there was work. -EBUSY: another thread is at the link. In both cases calling again soon pays.
 */
int progress_link(struct link *link);

/*
 * Acknowledgements are stored in the turn (shm/responder.h), for a peer that polls. A peer that
 * sleeps has to be woken. While `progress_defers_notice` is set, looks of the calling thread leave
 * that until the program's answer wakes the peer, or progress_send_notice is called. The caller
 * sees to it that the latter happens soon.
 */
extern _Thread_local bool progress_defers_notice;
bool progress_has_notice(void);
void progress_send_notice(void);
void progress_reset_after_fork(void);

/*
 * Processes everything that the other end has published before the call. Waits for other threads at
 * the link, each of which does a bounded amount of work.
 */
void progress_catch_up(struct link *link);

/*
 * The same for the link of this QP, whose lock it releases: a link's lock is outside those of QPs.
 * False: the QP has no link.
 */
bool progress_catch_up_with(struct qp *qp) RELEASES(qp->lock);

/*
 * The process at the other end is dead: processes its last records, then fails all QPs connected to
 * it. Waits for other threads that are at the link. The caller closes the link afterwards.
 */
void progress_on_death(struct link *link);

/*
 * A ring of the link is broken, so no message comes or leaves any more: tells the process at the
 * other end by both rings, and fails all QPs connected to it; in later calls those that were
 * connected since. That process may go on to copy from and to our memory, so the caller keeps the
 * link until it has ended.
 */
void progress_on_broken_ring(struct link *link);

#endif
