/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CQ - completion queues.
 *
 * In:  CQEs from requesters and responders (cq_push, cq_push_all).
 * Out: work completions to the program (cq_pop), events on the channel.
 *
 * A CQ is a ring of CQEs under a lock. It has address space for its whole capacity, and uses only a
 * first part, which doubles when it is full. So its memory and cache footprint depend on the most
 * CQEs that it ever had. A push into a full CQ raises IBV_EVENT_CQ_ERR once and drops the CQE; QPs
 * go on.
 *
 * A place in a send or receive queue becomes free when its CQE is popped, as on adapters. So a
 * program that posts until ENOMEM cannot overrun its CQ.
 *
 * Locks: cq->lock is taken inside QP and RQ locks, and channel->lock inside cq->lock.
 */
#ifndef OBJECT_CQ_H
#define OBJECT_CQ_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "object/channel.h"
#include "object/live_object.h"

struct context;
struct pd;
struct qp;
struct rq;
struct sq;

enum cqe_kind {
	CQE_SEND,    /* of sq, up to and including sq_seq */
	CQE_RECEIVE, /* of rq (the QP's own or its SRQ) */
};

struct cqe {
	uint64_t wr_id;
	uint64_t timestamp_ns; /* CLOCK_MONOTONIC; 0 unless cq->wants_timestamp */
	struct qp *qp;	       /* for cq_purge */
	union {		       /* the queue of the request */
		struct sq *sq;
		struct rq *rq; /* NULL: it was destroyed */
	};
	uint32_t sq_seq; /* CQE_SEND: sq->released becomes sq_seq + 1 */
	uint8_t kind;	 /* enum cqe_kind */
	uint8_t status;	 /* enum ibv_wc_status */
	uint8_t opcode;	 /* enum ibv_wc_opcode & 0x7f; `kind` has the receive bit */
	uint8_t sl;
	uint32_t vendor_err; /* enum cause */
	uint32_t byte_len;
	uint32_t imm; /* in network order, or the invalidated R_Key */
	uint32_t qp_num;
	uint32_t src_qp;
	uint16_t slid;
	uint8_t dlid_path_bits;
	uint8_t wc_flags; /* enum ibv_wc_flags */
};

static_assert(sizeof(struct cqe) == 64, "a cache line");

/* The completions that raise an event: each value includes those before it. */
enum cq_armed { CQ_NOT_ARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

struct cq {
	union {
		struct ibv_cq ib;
		struct ibv_cq_ex ex; /* comp_mask and functions are set by ibv_create_cq_ex only */
	};
	struct lock lock;	  /* guards all below, unless noted otherwise */
	struct cqe *ring;	  /* address space for a power of two >= cqe */
	uint32_t ring_mask;	  /* of the part in use, a power of two */
	uint32_t capacity;	  /* ib.cqe: a CQE beyond is an overrun */
	_Atomic uint32_t tail;	  /* next to push; cq_is_empty reads it without the lock */
	_Atomic uint32_t head;	  /* next to pop; likewise */
	_Atomic bool found_empty; /* by the last poll, no event since; set without the lock, too */
	uint8_t armed;		  /* enum cq_armed */
	uint8_t missed;		  /* enum cq_armed: the least that CQEs without an event wanted */
	bool overrun;		  /* IBV_EVENT_CQ_ERR was raised; later CQEs are dropped */
	bool wants_timestamp;
	bool wants_wallclock;
	bool ignore_overrun;  /* CQEs that do not fit are dropped without an event */
	bool single_threaded; /* one thread of the program polls: poll_lock is not taken */
	/*
	 * Held from start_poll to end_poll. It is not cq->lock, because a program posts between the
	 * two, and a post may push to this CQ. Outside all other locks.
	 */
	struct lock poll_lock;
	struct cqe current;	/* of start_poll/next_poll; guarded by poll_lock */
	_Atomic uint32_t users; /* send and receive queues; EBUSY while not 0 */
	uint32_t moderate_count, moderate_period_us;
	struct pd *parent_domain; /* NULL: none */
	struct channel_cq events; /* guarded by channel->lock */
	/* guarded by the context's async lock */
	uint32_t async_reported;
	struct live_object live;
};

static inline struct cq *cq_of(struct ibv_cq *ib)
{
	return (struct cq *)ib;
}

/* Reads without the lock: the result may be stale. */
static inline bool cq_is_empty(struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->tail, memory_order_acquire);
}

/* A poll has found it empty. */
static inline void cq_on_found_empty(struct cq *cq)
{
	if (!atomic_load_explicit(&cq->found_empty, memory_order_relaxed))
		atomic_store_explicit(&cq->found_empty, true, memory_order_relaxed);
}

/*
 * Creates a CQ, without the functions of ibv_cq_ex. 0, -EINVAL (cqe or vector out of range),
 * -EOPNOTSUPP (wc_flags, flags or comp_mask), -ENOMEM; with a cause.
 */
int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *attr, struct cq **cq);

/* 0, -EINVAL (out of range, or less than the CQEs in it), -ENOMEM; with a cause. */
int cq_resize(struct cq *cq, int cqe);

/* 0, or -EBUSY while QPs use the CQ. Waits until fetched events are acknowledged. */
int cq_destroy(struct cq *cq);

/*
 * Arms for the next completion, or for the next solicited or failed one. Idempotent. What is in the
 * CQ gives no event; but one that came since the last poll, which found fewer than it asked for,
 * counts as though it came after the arming. The program cannot tell the two apart, and mlx5, which
 * compares with the consumer index, raises the event, too. UCX, which sleeps without another poll,
 * relies on it.
 */
void cq_arm(struct cq *cq, bool solicited_only);

/*
 * Adds a completion and, if it matches the arming, an event on the channel. `solicited` is true for
 * a receive whose sender set the solicited event bit; a failed completion always counts as
 * solicited. Takes cq->lock.
 */
void cq_push(struct cq *cq, const struct cqe *cqe, bool solicited);

/* The same for `count` of them, at most 32, in order; `solicited`: 1 << place. */
void cq_push_all(struct cq *cq, const struct cqe *cqes, uint32_t count, uint32_t solicited);

/*
 * Between cq_gather_events and cq_stop_gathering the events of this thread's pushes are coalesced
 * until cq_give_events. So a woken thread finds all completions of one round of progress. The CQ
 * must exist until then: the thread calls cq_give_events before it releases the lock of the QP that
 * it pushed for.
 */
void cq_gather_events(void);
void cq_give_events(void);
bool cq_has_gathered(void); /* an event waits for cq_give_events */
void cq_stop_gathering(void);

/* Takes up to `max` completions in order. Returns how many. Takes cq->lock. */
int cq_pop(struct cq *cq, int max, struct ibv_wc *wc);

/* Moves one completion to cq->current. False: the CQ is empty. The caller holds poll_lock. */
bool cq_pop_current(struct cq *cq);

/* For a queue that is being destroyed: its CQEs stay, and no longer refer to it. */
void cq_forget_queue(struct cq *cq, const struct rq *rq);

/* base/check.h */
void cq_check(const struct cq *cq) REQUIRES(cq->lock);

/*
 * Removes the completions of a QP that is destroyed or reset, and frees the places of their
 * receives.
 */
void cq_purge(struct cq *cq, const struct qp *qp);

#endif
