/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/sendq.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/gid.h"

/* The new epoch voids the entries that the requests have in the in_flight queue. */
void shm_sendq_go_back(struct shm_qp *lq, uint32_t seq)
{
	struct qp *qp = lq->qp;

	lq->epoch = shm_new_epoch();
	lq->attempt++;
	for (uint32_t s = seq; s != qp->sq.issue; s++) {
		struct wqe *wqe = sq_wqe(&qp->sq, s);

		if (wqe->state == WQE_DONE)
			continue; /* executed at this end only */
		if (wqe_is_on_the_way(wqe))
			shm_sendq_uncount(lq, wqe);
		wqe->state = WQE_POSTED;
		wqe->begun = 1;
		wqe->route = ROUTE_UNDECIDED;
		wqe->done = 0;
	}
	if (qp->sq.issue != qp->sq.tail) {
		struct wqe *wqe = sq_wqe(&qp->sq, qp->sq.issue);

		wqe->begun |= wqe->done != 0;
		wqe->done = 0;
	}
	lq->next_msn = sq_wqe(&qp->sq, seq)->msn;
	lq->failure.pending = false; /* the request fails again at its turn */
	qp->sq.issue = seq;
}

/*
 * Programs may get an address from another host that names this host here: of loopback, or of a
 * bridge of containers. And each user's verbatimd counts slots from 1, so a QP number of another
 * user's process, as in another container with this network, may lead to this process. So the text
 * says whose address it is, and whose number. Returns its length.
 */
static size_t say_whose(const struct shm_qp *lq, char *text, size_t room)
{
	const union ibv_gid *gid = &lq->qp->attr.ah_attr.grh.dgid;
	bool is_own = lq->qp->attr.dest_qp_num >> ARENA_QP_BITS == shm_env.slot;
	char address[GID_TEXT_BYTES];

	return (size_t)snprintf(text, room, "%s is this host itself%s; ",
				gid_text(gid->raw, address),
				is_own ? ", and the QP number one of this process's own" : "");
}

void shm_sendq_fail(struct shm_qp *lq, uint32_t seq, enum ibv_wc_status status, enum cause cause,
		    const char *fmt, ...)
{
	struct qp *qp = lq->qp;
	char text[200];
	size_t len = 0;
	va_list args;

	if (cause == CAUSE_PEER_UNKNOWN || cause == CAUSE_PEER_QP_MISSING)
		len = say_whose(lq, text, sizeof(text));
	va_start(args, fmt);
	vsnprintf(text + len, sizeof(text) - len, fmt, args);
	va_end(args);
	local_fail(qp, &lq->failure, seq, status, cause, text);
}

bool shm_sendq_complete(struct shm_qp *lq)
{
	qp_retire(lq->qp);
	return !local_complete_failed(lq->qp, &lq->failure);
}

#ifdef VERBATIM_CHECK
#define REQUESTS 16 /* issued; in longer queues they are counted only now and then */

/* The counts are those of the outstanding messages. */
static void check_counts(const struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;
	uint32_t unacked = 0, reads = 0, queued = 0;

	for (uint32_t seq = sq->head; seq != sq->issue; seq++) {
		const struct wqe *wqe = sq_wqe(sq, seq);

		if (!wqe_is_on_the_way(wqe))
			continue;
		unacked++;
		reads += wqe_is_read(wqe);
		queued += wqe->route == ROUTE_QUEUED;
	}
	INVARIANT(unacked == lq->unacked && reads == lq->reads && queued == lq->queued,
		  "QP 0x%06x: %u messages and of these %u READs, %u queued, counted %u, %u and %u",
		  lq->qp->ib.qp_num, unacked, reads, queued, lq->unacked, lq->reads, lq->queued);
}

/*
 * The send queue of a QP of this path, between two records, posts or timers:
 * - those of qp_check hold;
 * - `unacked` counts the outstanding messages; `reads` the READs and atomics of these, `queued`
 *   those of ROUTE_QUEUED;
 * - a failure at this end is that of the request before sq.issue.
 */
void shm_sendq_check(const struct shm_qp *lq)
{
	struct sq *sq = &lq->qp->sq;

	qp_check(lq->qp);
	if (sq->issue - sq->head <= REQUESTS || check_sometimes(REQUESTS))
		check_counts(lq);
	INVARIANT(!lq->failure.pending ||
			  (sq->issue != sq->head && wqe_has_failed(sq_wqe(sq, sq->issue - 1))),
		  "QP 0x%06x: head %u issue %u", lq->qp->ib.qp_num, sq->head, sq->issue);
}
#endif
