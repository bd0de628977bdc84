/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RQ - a queue of receive requests: a QP's own, or that of an SRQ.
 *
 * In:  ibv_recv_wr chains from the program (rq_post).
 * Out: one receive at a time to the responder (rq_take, rq_take_own).
 *
 * The responder gets a copy, so the place in the ring is free at once. But the receive counts
 * towards max_wr until its completion is polled (rq_release).
 *
 * A QP's own queue has one thread at a time that takes, under the QP's lock, so it needs no other
 * (rq_take_own). Barrier RECEIVE: rq_post stores tail with release after the receive, rq_take_own
 * loads it with acquire. The receive's place is overwritten after `released` has passed it, which
 * the responder's completion, and its poll, come before.
 */
#ifndef OBJECT_RQ_H
#define OBJECT_RQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define RQ_SGE_MAX 32

struct receive {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length; /* sum of the SGEs, saturated at UINT32_MAX */
	struct ibv_sge sge[RQ_SGE_MAX];
};

struct rq {
	struct lock lock; /* guards ring and tail, and the head of an SRQ */
	char *ring;	  /* mask + 1 entries of `stride` bytes: receives with max_sge SGEs */
	uint32_t stride, mask;
	uint32_t max_wr, max_sge;  /* granted; max_wr 0: no receive queue */
	_Atomic uint32_t head;	   /* next to take; a QP's own: guarded by the QP's lock */
	_Atomic uint32_t tail;	   /* next to post; rq_take_own reads it without the lock */
	_Atomic uint32_t released; /* completions polled; tail - released <= max_wr */
	_Atomic uint32_t limit;	   /* of an SRQ: rq_take reports once that fewer are left; 0: off */
	uint32_t qpn;		   /* for causes; 0: of an SRQ */
	bool full_reported;	   /* CAUSE_QUEUE_FULL was reported */
};

int rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge); /* 0, -ENOMEM */
void rq_fini(struct rq *rq);

/*
 * Forgets all receives, also those whose completions were not polled, for a QP that is reset. The
 * caller holds the QP's lock.
 */
void rq_clear(struct rq *rq);

/* Changes max_wr: 0, -EINVAL (less than what is outstanding), -ENOMEM. */
int rq_resize(struct rq *rq, uint32_t max_wr);

/* Posts the chain. 0, or ENOMEM (full) or EINVAL at the first that fails, which is *bad. */
int rq_post(struct rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

enum rq_taken {
	RQ_EMPTY = 0,
	RQ_TAKEN,
	RQ_TAKEN_BELOW_LIMIT, /* fewer than `limit` are left, which is 0 now */
};

/*
 * Moves the oldest receive to *out, of which only num_sge SGEs are written. The caller holds the
 * QP's lock, if the queue is a QP's own.
 */
enum rq_taken rq_take(struct rq *rq, struct receive *out);

/*
 * The same without the RQ's lock, of a QP's own queue: the caller holds the QP's lock. A receive
 * that another thread is just posting may be missed; rq_take misses none.
 */
bool rq_take_own(struct rq *rq, struct receive *out);

/* Releases `count` receives, whose completions were polled or removed. Any thread, no lock. */
void rq_release(struct rq *rq, uint32_t count);

/* base/check.h */
void rq_check(const struct rq *rq) REQUIRES(rq->lock);

#endif
