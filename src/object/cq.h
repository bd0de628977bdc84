/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CQ - completion queues.
 *
 * In:  CQEs, from whoever carries out work (cq_push).
 * Out: work completions to the program (cq_pop), events on the channel.
 *
 * A CQ is a ring of CQEs under a lock. It has address space for its whole capacity, but goes round
 * in the first part of it, which doubles when it is full: so it takes memory, and room in the
 * processor's cache, for the completions that were in it at once and not for its capacity. Pushing into a full one raises IBV_EVENT_CQ_ERR once, loses
 * the CQE and disturbs nobody else. A slot of a send or receive queue is free for the program again
 * when the CQE that tells of it is popped, as on adapters: a program that posts until ENOMEM cannot
 * overrun its CQ.
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

#include "base/list.h"
#include "base/lock.h"
#include "object/channel.h"
#include "object/live_object.h"

struct context;
struct qp;
struct rq;

enum cqe_kind {
	CQE_SEND,    /* of qp->sq, up to and with sq_seq */
	CQE_RECEIVE, /* of rq (the QP's own or its SRQ) */
};

struct cqe {
	uint64_t wr_id;
	uint64_t timestamp_ns; /* CLOCK_MONOTONIC; 0 unless cq->wants_timestamp */
	struct qp *qp;
	struct rq *rq;	       /* CQE_RECEIVE: whose slot becomes free; NULL: that queue is gone */
	uint32_t sq_seq;       /* CQE_SEND: sq->released becomes sq_seq + 1 */
	uint8_t kind;	       /* enum cqe_kind */
	uint8_t status;	       /* enum ibv_wc_status */
	uint8_t opcode;	       /* enum ibv_wc_opcode & 0x7f, the receive bit is in kind */
	uint8_t sl;
	uint32_t vendor_err;   /* enum cause */
	uint32_t byte_len;
	uint32_t imm;	       /* network order, or the invalidated R_Key */
	uint32_t qp_num;
	uint32_t src_qp;
	uint16_t slid;
	uint8_t dlid_path_bits;
	uint8_t wc_flags;      /* enum ibv_wc_flags */
};

static_assert(sizeof(struct cqe) == 64, "a cache line");

/* Which completions make an event. */
enum cq_armed { CQ_NOT_ARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

struct cq {
	union {
		struct ibv_cq ib;
		struct ibv_cq_ex ex; /* comp_mask and pollers only if made by ibv_create_cq_ex */
	};
	struct lock lock;      /* guards what follows, unless said otherwise */
	struct cqe *ring;      /* address space for a power of two >= cqe */
	uint32_t ring_mask;    /* of the part in use, a power of two */
	uint32_t capacity;     /* ib.cqe: more than that is an overrun */
	_Atomic uint32_t tail; /* next to push; read without the lock to see whether there is work */
	_Atomic uint32_t head; /* next to pop; likewise */
	uint8_t armed;	       /* enum cq_armed */
	bool overrun;	       /* IBV_EVENT_CQ_ERR was raised; nothing is pushed any more */
	bool wants_timestamp;
	bool wants_wallclock;
	bool ignore_overrun;   /* what does not fit is lost without an event */
	bool single_threaded;  /* the program polls with one thread only: poll_lock is not taken */
	/*
	 * Held from start_poll to end_poll. Not cq->lock, because a program posts between the two and
	 * a post may push into this CQ. No other lock is held when it is taken.
	 */
	struct lock poll_lock;
	struct cqe current;    /* of start_poll/next_poll; guarded by poll_lock */
	_Atomic uint32_t users; /* QPs, counted once for each of their two queues; EBUSY */
	uint32_t moderate_count, moderate_period_us;
	/* guarded by channel->lock */
	struct list pending_link;
	uint32_t events_pending;  /* not yet fetched by ibv_get_cq_event */
	uint32_t events_reported; /* fetched; destroy waits until all of them are acknowledged */
	/* guarded by the context's async lock */
	uint32_t async_reported;
	struct live_object live;
};

static inline struct cq *cq_of(struct ibv_cq *ib)
{
	return (struct cq *)ib;
}

/* Looks without the lock: false may be stale by the time it is read. */
static inline bool cq_is_empty(struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->tail, memory_order_acquire);
}

/*
 * A new CQ with the fields of the ABI set, but not the pollers of ibv_cq_ex: 0, -EINVAL (cqe or
 * vector out of range), -EOPNOTSUPP (wc_flags, flags or comp_mask not offered), -ENOMEM; with a
 * cause.
 */
int cq_create(struct context *context, const struct ibv_cq_init_attr_ex *attr, struct cq **cq);

/* 0, or -EINVAL (out of range, or less than what is in it), -ENOMEM; with a cause. */
int cq_resize(struct cq *cq, int cqe);

/* 0, or -EBUSY while QPs use it. Waits for the acknowledgement of events that were fetched. */
int cq_destroy(struct cq *cq);

/* Arms for the next completion, or the next solicited or failed one. Twice is as good as once. */
void cq_arm(struct cq *cq, bool solicited_only);

/*
 * Adds a completion and, if it matches the arming, an event on the channel. `solicited` is of the
 * receive side: the sender asked for it; a completion with error always counts as solicited.
 * Takes cq->lock. Does not fail (overrun: see above).
 */
void cq_push(struct cq *cq, const struct cqe *cqe, bool solicited);

/*
 * Between cq_gather_events and cq_stop_gathering, events that this thread's pushes make are kept back
 * until cq_give_events: who is woken then finds all completions of one look, and not the first of
 * them only, with the next coming while it polls. A CQ must not be destroyed in between: call
 * cq_give_events before the lock of the QP is released that it was pushed for.
 */
void cq_gather_events(void);
void cq_give_events(void);
bool cq_has_gathered(void); /* an event is kept back */
void cq_stop_gathering(void);

/* Takes up to `max` completions in order; returns how many, 0 = empty. Takes cq->lock. */
int cq_pop(struct cq *cq, int max, struct ibv_wc *wc);

/* Takes one completion as it is into cq->current; false: empty. Caller holds poll_lock. */
bool cq_pop_current(struct cq *cq);

/* Completions of this queue stay, but release nothing: the queue is about to go. */
void cq_forget_queue(struct cq *cq, const struct rq *rq);

/* Removes the completions of a QP that is destroyed or reset, and gives back their receives. */
void cq_purge(struct cq *cq, const struct qp *qp);

#endif
