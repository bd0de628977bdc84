/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RQ - a queue of receive requests: a QP's own, or that of an SRQ.
 *
 * In:  ibv_recv_wr chains from the program (rq_post).
 * Out: one receive at a time to the responder (rq_take), copied out, so that its place in the ring
 *      is free at once; the *count* is given back when its completion is polled (rq_release).
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
	struct lock lock;      /* guards ring, head, tail */
	char *ring;	       /* mask + 1 entries of `stride` bytes: struct receive cut at max_sge */
	uint32_t stride, mask;
	uint32_t max_wr, max_sge; /* granted; max_wr 0: no receive queue */
	uint32_t head;	       /* next to take */
	uint32_t tail;	       /* next to post */
	_Atomic uint32_t released; /* receives whose completions were polled; tail - released <= max_wr */
	uint32_t limit;	       /* of an SRQ: raise IBV_EVENT_SRQ_LIMIT_REACHED below it; 0 = off */
	struct srq *srq;       /* NULL: a QP's own */
	uint32_t qpn;	       /* for causes; 0: of an SRQ */
	bool full_reported;    /* QUEUE_FULL is reported once */
};

int rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge); /* 0, -ENOMEM */
void rq_fini(struct rq *rq);

/* Forgets all receives, and completions that were not polled: the QP is reset. */
void rq_clear(struct rq *rq);

/* Changes max_wr: 0, -EINVAL (less than what is outstanding), -ENOMEM. */
int rq_resize(struct rq *rq, uint32_t max_wr);

/* Posts the chain up to the first that does not fit: 0, ENOMEM or EINVAL with *bad set. */
int rq_post(struct rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * Takes the oldest receive into *out (only num_sge SGEs are copied). False: none is posted. Raises
 * the limit event of an SRQ.
 */
bool rq_take(struct rq *rq, struct receive *out);

/* Any thread, no lock: `count` completions of this queue were polled, or dropped at destroy. */
void rq_release(struct rq *rq, uint32_t count);

#endif
