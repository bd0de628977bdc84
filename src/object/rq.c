/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/rq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cause.h"
#include "base/check.h"

static struct receive *place(const struct rq *rq, uint32_t seq)
{
	return (struct receive *)(rq->ring + (size_t)(seq & rq->mask) * rq->stride);
}

static uint32_t head_of(const struct rq *rq)
{
	return atomic_load_explicit(&rq->head, memory_order_relaxed);
}

/* The caller holds the lock. */
static uint32_t tail_of(const struct rq *rq)
{
	return atomic_load_explicit(&rq->tail, memory_order_relaxed);
}

/* A ring for max_wr entries. The kernel allocates its pages when they are first written. */
static char *ring_create(uint32_t max_wr, uint32_t stride, uint32_t *mask)
{
	uint32_t size = 1;
	void *ring;

	while (size < max_wr)
		size *= 2;
	if (posix_memalign(&ring, 64, (size_t)size * stride))
		return NULL;
	*mask = size - 1;
	return ring;
}

int rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	memset(rq, 0, sizeof(*rq));
	lock_init(&rq->lock);
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	rq->stride = (offsetof(struct receive, sge) + max_sge * sizeof(struct ibv_sge) + 63) & ~63u;
	if (max_wr == 0)
		return 0;
	rq->ring = ring_create(max_wr, rq->stride, &rq->mask);
	if (rq->ring)
		return 0;
	lock_fini(&rq->lock);
	return -ENOMEM;
}

void rq_fini(struct rq *rq)
{
	free(rq->ring);
	rq->ring = NULL;
	lock_fini(&rq->lock);
}

void rq_clear(struct rq *rq)
{
	uint32_t tail;

	lock_acquire(&rq->lock);
	tail = tail_of(rq);
	atomic_store_explicit(&rq->head, tail, memory_order_relaxed);
	atomic_store_explicit(&rq->released, tail, memory_order_release);
	lock_release(&rq->lock);
}

int rq_resize(struct rq *rq, uint32_t max_wr)
{
	uint32_t mask, seq, outstanding;
	char *ring = ring_create(max_wr, rq->stride, &mask), *old;

	if (!ring)
		return -ENOMEM;
	lock_acquire(&rq->lock);
	outstanding = tail_of(rq) - atomic_load_explicit(&rq->released, memory_order_acquire);
	if (outstanding > max_wr) {
		lock_release(&rq->lock);
		free(ring);
		return -EINVAL;
	}
	for (seq = head_of(rq); seq != tail_of(rq); seq++)
		memcpy(ring + (size_t)(seq & mask) * rq->stride, place(rq, seq), rq->stride);
	old = rq->ring;
	rq->ring = ring;
	rq->mask = mask;
	rq->max_wr = max_wr;
	CHECK(rq_check(rq));
	lock_release(&rq->lock);
	free(old);
	return 0;
}

static void report_full(struct rq *rq) REQUIRES(rq->lock)
{
	if (rq->full_reported)
		return;
	rq->full_reported = true;
	cause_report(CAUSE_QUEUE_FULL, rq->qpn, "%s of %u receives",
		     rq->qpn ? "receive queue" : "SRQ", rq->max_wr);
}

static int post_one(struct rq *rq, const struct ibv_recv_wr *wr) REQUIRES(rq->lock)
{
	uint32_t tail = tail_of(rq);
	struct receive *receive;
	uint64_t length = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
		cause_report(CAUSE_TOO_MANY_SGE, rq->qpn, "receive 0x%llx has %d, at most %u",
			     (unsigned long long)wr->wr_id, wr->num_sge, rq->max_sge);
		return EINVAL;
	}
	if (tail - atomic_load_explicit(&rq->released, memory_order_acquire) >=
	    rq->max_wr) { /* RECEIVE */
		report_full(rq);
		return ENOMEM;
	}
	receive = place(rq, tail);
	receive->wr_id = wr->wr_id;
	receive->num_sge = (uint32_t)wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++) {
		receive->sge[i] = wr->sg_list[i];
		length += wr->sg_list[i].length;
	}
	receive->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	atomic_store_explicit(&rq->tail, tail + 1, memory_order_release); /* RECEIVE */
	return 0;
}

int rq_post(struct rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int error = 0;

	lock_acquire(&rq->lock);
	for (; wr; wr = wr->next) {
		error = post_one(rq, wr);
		if (error) {
			*bad = wr;
			break;
		}
	}
	CHECK(rq_check(rq));
	lock_release(&rq->lock);
	return error;
}

static bool is_below_limit(struct rq *rq) REQUIRES(rq->lock)
{
	uint32_t left = tail_of(rq) - head_of(rq);
	uint32_t limit = atomic_load_explicit(&rq->limit, memory_order_relaxed);

	if (left >= limit)
		return false;
	cause_note(CAUSE_SRQ_LIMIT, 0, "%u receives, limit %u", left, limit);
	atomic_store_explicit(&rq->limit, 0, memory_order_relaxed);
	return true;
}

/* False: there is none below `tail`. */
static bool take(struct rq *rq, uint32_t tail, struct receive *out)
{
	uint32_t head = head_of(rq);
	const struct receive *receive;

	if (head == tail)
		return false;
	receive = place(rq, head);
	memcpy(out, receive,
	       offsetof(struct receive, sge) + receive->num_sge * sizeof(struct ibv_sge));
	atomic_store_explicit(&rq->head, head + 1, memory_order_relaxed);
	return true;
}

enum rq_taken rq_take(struct rq *rq, struct receive *out)
{
	enum rq_taken taken = RQ_EMPTY;

	lock_acquire(&rq->lock);
	if (take(rq, tail_of(rq), out))
		taken = is_below_limit(rq) ? RQ_TAKEN_BELOW_LIMIT : RQ_TAKEN;
	CHECK(rq_check(rq));
	lock_release(&rq->lock);
	return taken;
}

bool rq_take_own(struct rq *rq, struct receive *out)
{
	return take(rq, atomic_load_explicit(&rq->tail, memory_order_acquire), out); /* RECEIVE */
}

void rq_release(struct rq *rq, uint32_t count)
{
	atomic_fetch_add_explicit(&rq->released, count, memory_order_release); /* RECEIVE */
}

#ifdef VERBATIM_CHECK
/*
 * Invariants of an RQ, in sequence numbers:
 * - released <= head <= tail: only receives that were taken have completions to poll;
 * - tail - released <= max_wr <= places of the ring;
 * - the oldest receive has no more SGEs than were granted.
 */
void rq_check(const struct rq *rq)
{
	uint32_t released = atomic_load_explicit(&rq->released, memory_order_acquire);
	uint32_t head = head_of(rq), tail = tail_of(rq), used = tail - released;

	INVARIANT(used <= rq->max_wr, "QP 0x%06x: released %u tail %u, of %u", rq->qpn, released,
		  tail, rq->max_wr);
	INVARIANT(head - released <= used, "QP 0x%06x: released %u head %u tail %u", rq->qpn,
		  released, head, tail);
	if (!rq->ring)
		return;
	INVARIANT(rq->max_wr <= rq->mask + 1 && !(rq->mask & (rq->mask + 1)),
		  "QP 0x%06x: %u in mask 0x%x", rq->qpn, rq->max_wr, rq->mask);
	if (head != tail)
		INVARIANT(place(rq, head)->num_sge <= rq->max_sge,
			  "QP 0x%06x receive %u: %u SGEs, at most %u", rq->qpn, head,
			  place(rq, head)->num_sge, rq->max_sge);
}
#endif
