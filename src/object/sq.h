/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQ - a queue of send requests and how far each of them is.
 *
 *     released      head            issue            tail
 *        |  polled?  | in flight     | not yet issued  |
 *   ------------------------------------------------------->  sequence numbers (uint32, wrapping)
 *
 *   released..head  retired; their places are the program's again when a completion at or after
 *                   them is polled
 *   head..issue     carried out or on the way; state WQE_ISSUED or WQE_DONE
 *   issue..tail     posted, not looked at yet; state WQE_POSTED. Only the one at `issue` may be
 *                   partly done (wqe.done)
 *
 * Completions are made in order, at `head`, by sq_retire. Guarded by the QP's lock, except
 * `released`.
 */
#ifndef OBJECT_SQ_H
#define OBJECT_SQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cause.h"
#include "object/opcode.h"

#define SQ_SGE_MAX    32
#define SQ_INLINE_MAX 1024

struct ah;

enum wqe_state {
	WQE_POSTED,
	WQE_ISSUED, /* waits for the peer: an acknowledgement or a response */
	WQE_DONE,   /* carried out, or failed: `status` tells */
};

/* Which way a request was begun. */
enum wqe_route {
	ROUTE_UNDECIDED,
	ROUTE_DIRECT,  /* shared memory: on the target's memory */
	ROUTE_MESSAGE, /* shared memory: as a message; a datagram: it waits for room no longer */
	ROUTE_FAILED,  /* it failed at this end, and waits for its turn to complete */
};

struct wqe {
	uint64_t wr_id;
	uint8_t opcode;	    /* enum ibv_wr_opcode */
	uint8_t flags;	    /* enum ibv_send_flags; IBV_SEND_SIGNALED is set with sq_sig_all */
	uint8_t state;	    /* enum wqe_state */
	uint8_t status;	    /* WQE_DONE: enum ibv_wc_status */
	uint32_t vendor_err; /* enum cause */
	uint32_t length;    /* of the message in bytes */
	uint32_t imm;	    /* network order, or the R_Key to invalidate */
	uint8_t num_sge;
	bool room_awaited;  /* datagram: it has found a ring full, and has a time to wait */
	uint8_t begun;	    /* it was on the way once: in SQD it is still carried out */
	uint8_t route;	    /* enum wqe_route */
	/* one-sided */
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t compare_add; /* FLUSH: its placement types, enum ibv_placement_type */
	uint64_t swap;	      /* FLUSH: its selectivity level */
	/* datagrams */
	struct ah *ah;	    /* with a reference */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint8_t *kept;	    /* the data as it was posted (sq_keep_data); NULL: read it where it lies */
	uint32_t remote_srqn; /* XRC */
	uint32_t revoked; /* LOCAL_INV: the key that it has taken away; 0: none yet (object/mw.h) */
	/* memory windows: ibv_bind_mw, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV (key in imm) */
	uint32_t window, region;      /* their keys: one that is gone by the request's turn is not found */
	struct ibv_mw_bind_info bind; /* but for its `mr` */
	/* how far it is; for the path's use */
	uint32_t done;	    /* bytes carried out */
	uint32_t first_psn; /* of its first packet; through shared memory: the number of its message */
	uint32_t end_psn;   /* the PSN behind its last packet */
	uint16_t read_piece; /* packets that one READ request asks for */
	uint16_t wire_tries; /* datagram: how often it has found the socket full */
	/* SGEs, or the data itself if IBV_SEND_INLINE */
	union {
		struct ibv_sge sge[0];
		uint8_t inline_data[0];
	};
};

struct sq {
	char *ring;	 /* mask + 1 entries of `stride` bytes */
	uint32_t stride, mask;
	uint32_t max_wr, max_sge, max_inline; /* granted */
	bool sig_all;
	bool full_reported; /* QUEUE_FULL is reported once */
	uint32_t head, issue, tail;
	_Atomic uint32_t released;
};

int sq_init(struct sq *sq, const struct ibv_qp_cap *cap, bool sig_all); /* 0, -ENOMEM */
void sq_fini(struct sq *sq); /* drops the references of all WQEs */

static inline struct wqe *sq_wqe(struct sq *sq, uint32_t seq)
{
	return (struct wqe *)(sq->ring + (size_t)(seq & sq->mask) * sq->stride);
}

struct qp;

/* The place for the next request, or NULL: full. */
static inline struct wqe *sq_reserve(struct sq *sq)
{
	if (sq->tail - atomic_load_explicit(&sq->released, memory_order_acquire) >= sq->max_wr)
		return NULL;
	return sq_wqe(sq, sq->tail);
}

/*
 * Copies one request into the queue: 0, ENOMEM (full), EINVAL (opcode not of this service, too
 * many SGEs, inline too long, bad AH...), with a cause reported. Caller holds the QP's lock.
 */
int sq_push(struct qp *qp, const struct ibv_send_wr *wr);

/*
 * The steps of sq_push, for builders (ibv_wr_*): sq_begin gives the next place with opcode, wr_id
 * and flags (but not IBV_SEND_INLINE, which sq_set_inline sets) set and everything else zero; the setters fill it; sq_end checks the whole and makes it
 * posted. A place that was begun and not ended is not in the queue, but sq_drop has to free what
 * it holds. All return 0, ENOMEM or EINVAL with a cause. Caller holds the QP's lock.
 */
int sq_begin(struct qp *qp, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned int flags,
	     struct wqe **wqe);
int sq_set_sges(struct qp *qp, struct wqe *wqe, const struct ibv_sge *list, size_t count);
/* The data is inline: sq_add_inline appends to it. */
int sq_set_inline(struct qp *qp, struct wqe *wqe);
int sq_add_inline(struct qp *qp, struct wqe *wqe, const void *data, size_t length);
int sq_set_ah(struct qp *qp, struct wqe *wqe, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
int sq_end(struct qp *qp, struct wqe *wqe);
void sq_drop(struct wqe *wqe);
/*
 * Copies the data of the datagrams from `from` on that have not left yet. A datagram that waits then leaves
 * as it was posted, although there are programs that take its memory back before it completes, once the
 * other end shows that it has heard of them (UCX, when both ends connect): an HCA has sent it by then. What
 * cannot be copied stays where it is, and what is wrong with it is found when its turn comes. Caller holds
 * the QP's lock.
 */
void sq_keep_data(struct qp *qp, uint32_t from);

/* Takes back all requests from `tail` on; nobody has looked at them yet. */
void sq_roll_back(struct qp *qp, uint32_t tail);

/*
 * Makes the completions of all finished requests at the head, in order, until one that is not
 * WQE_DONE. Caller holds the QP's lock. Takes the send CQ's lock. A request that failed and comes
 * to the head fails the QP (qp_fail): whoever carries out work need only finish the request and
 * retire, and earlier requests that are still on the way come first.
 */
void sq_retire(struct qp *qp);

/* Completes all requests, with FLUSH_ERR those that have no status of their own. Holds the lock. */
void sq_flush(struct qp *qp);

/* Forgets all requests: the QP is reset. Caller holds the lock. */
void sq_clear(struct sq *sq);

/* The data, if it is in the queue's own memory; NULL: in that of the SGEs. */
static inline const uint8_t *wqe_data(const struct wqe *wqe)
{
	return wqe->flags & IBV_SEND_INLINE ? wqe->inline_data : wqe->kept;
}

static inline bool wqe_has_failed(const struct wqe *wqe)
{
	return wqe->route == ROUTE_FAILED;
}

/* Part of it, or an attempt at it, is on the way or was. */
static inline bool wqe_is_begun(const struct wqe *wqe)
{
	return wqe->done || wqe->begun;
}

/* What an atomic brings back, or ATOMIC_WRITE writes, is one word (CONTRACT 37). */
static inline bool wqe_length_is_wrong(const struct wqe *wqe)
{
	return wqe->length != sizeof(uint64_t) && operation_is_of_a_word(opcode_operation(wqe->opcode));
}

/* Marks a request finished; sq_retire makes it known. */
static inline void wqe_finish(struct wqe *wqe, enum ibv_wc_status status, enum cause cause)
{
	wqe->state = WQE_DONE;
	wqe->status = status;
	wqe->vendor_err = cause;
}

#endif
