/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQ - a queue of send requests, with the progress of each.
 *
 *     released      head            issue            tail
 *        |  polled?  | in flight     | not yet issued  |
 *   ------------------------------------------------------->  sequence numbers (uint32, wrapping)
 *
 *   released..head  retired; free when the program polls a completion at or after the place
 *   head..issue     under way or executed; state WQE_ISSUED or WQE_DONE
 *   issue..tail     posted; state WQE_POSTED. The request at `issue` may be partly done (wqe.done)
 *
 * qp_retire completes requests in order, at `head`. The QP's lock guards all but `released`.
 */
#ifndef OBJECT_SQ_H
#define OBJECT_SQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cause.h"
#include "base/psn.h"
#include "object/opcode.h"

#define SQ_SGE_MAX 32
/* A UD queue has room to copy the data of the requests at its first SQ_COPIES places. */
#define SQ_COPY_BYTES 4096 /* the longest path MTU (IBA 9.2.1) */
#define SQ_COPIES     1024

struct ah;

enum wqe_state {
	WQE_POSTED,
	WQE_ISSUED, /* waits for the peer's acknowledgement or response */
	WQE_DONE,   /* executed, or failed, with `status` */
};

/* How a request is executed. */
enum wqe_route {
	ROUTE_UNDECIDED,
	ROUTE_DIRECT,  /* shared memory: the requester accesses the target's memory itself */
	ROUTE_MESSAGE, /* shared memory: through a ring; datagram: the wait for room has ended */
	ROUTE_QUEUED,  /* through a ring, behind a message that is unacknowledged */
	ROUTE_FETCHED, /* through a ring; the responder fetches payload (shm/rendezvous.h) */
	ROUTE_FAILED,  /* failed at this end; waits for its turn to complete */
};

struct wqe {
	uint64_t wr_id;
	uint8_t opcode;	     /* enum ibv_wr_opcode */
	uint8_t flags;	     /* enum ibv_send_flags, IBV_SEND_SIGNALED included with sq_sig_all */
	uint8_t state;	     /* enum wqe_state */
	uint8_t status;	     /* WQE_DONE: enum ibv_wc_status */
	uint32_t vendor_err; /* enum cause */
	uint32_t length;     /* bytes of the message */
	uint32_t imm;	     /* in network order, or the R_Key to invalidate */
	uint8_t num_sge;
	bool room_awaited; /* datagram: the ring was full, and a deadline is set */
	uint8_t begun;	   /* was issued once, so it continues in SQD */
	uint8_t route;	   /* enum wqe_route */
	/* one-sided */
	uint32_t rkey;
	uint64_t remote_addr;
	struct operands operands;
	/* datagrams */
	struct ah *ah; /* holds a reference */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	uint8_t *kept;	      /* a copy of the data (sq_keep_data); NULL: the data is in the SGEs */
	uint32_t remote_srqn; /* XRC */
	uint32_t revoked; /* LOCAL_INV: the key that it has revoked; 0: none yet (object/mw.h) */
	/* memory windows: ibv_bind_mw, IBV_WR_BIND_MW, IBV_WR_LOCAL_INV (key in imm) */
	uint32_t window, region;      /* keys; the objects may be gone at the request's turn */
	struct ibv_mw_bind_info bind; /* without `mr` */
	/* progress, for the path */
	uint32_t done; /* bytes sent, or written */
	union {
		psn_t first_psn; /* between hosts: of the first packet */
		uint32_t msn;	 /* in shared memory: of the message */
	};
	union {
		psn_t end_psn;	       /* the PSN after the last packet */
		uint32_t end_of_bytes; /* over TCP: position in the stream behind the last byte */
	};
	uint16_t read_piece; /* packets of one READ request */
	uint16_t wire_tries; /* of a datagram: how often the socket was full */
	/* SGEs, or the data itself if IBV_SEND_INLINE */
	union {
		struct ibv_sge sge[0];
		uint8_t inline_data[0];
	};
};

struct sq {
	char *ring;	 /* mask + 1 entries of `stride` bytes */
	uint8_t *copies; /* for sq_keep_data; NULL: not of datagrams */
	uint32_t stride, mask;
	uint32_t max_wr, max_sge, max_inline; /* granted */
	uint32_t qpn;			      /* for causes */
	uint8_t type;			      /* of the QP: enum ibv_qp_type, or OPCODE_QPT_RNIC */
	bool sig_all;
	bool full_reported; /* CAUSE_QUEUE_FULL was reported */
	uint32_t head, issue, tail;
	_Atomic uint32_t released;
};

/* `datagrams`: of a UD QP. 0, -ENOMEM */
int sq_init(struct sq *sq, const struct ibv_qp_cap *cap, bool sig_all, bool datagrams);
void sq_fini(struct sq *sq); /* drops the references of all WQEs */

static inline struct wqe *sq_wqe(struct sq *sq, uint32_t seq)
{
	return (struct wqe *)(sq->ring + (size_t)(seq & sq->mask) * sq->stride);
}

/* The place of the next request; NULL: the SQ is full. */
static inline struct wqe *sq_reserve(struct sq *sq)
{
	if (sq->tail - atomic_load_explicit(&sq->released, memory_order_acquire) >= sq->max_wr)
		return NULL;
	return sq_wqe(sq, sq->tail);
}

/*
 * Copies one request into the queue. 0, ENOMEM (full) or EINVAL (opcode not of this service, too
 * many SGEs, inline data too long, invalid AH...), with a cause reported. The caller holds the QP's
 * lock.
 */
int sq_push(struct sq *sq, const struct ibv_send_wr *wr);

/*
 * The steps of sq_push, for builders (ibv_wr_*). sq_begin returns the next place with opcode, wr_id
 * and flags set, except IBV_SEND_INLINE, which sq_set_inline sets; all else is 0. The setters fill
 * it in. sq_end checks the request and posts it. sq_drop discards a request without sq_end.
 * Functions return 0, ENOMEM or EINVAL, with a cause. The caller holds the lock of the queue: the
 * QP's, or, of its builder_sq, builder_lock.
 */
int sq_begin(struct sq *sq, enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned int flags,
	     struct wqe **wqe);
int sq_set_sges(struct sq *sq, struct wqe *wqe, const struct ibv_sge *list, size_t count);
/* Makes the request's data inline; sq_add_inline appends to it. */
int sq_set_inline(struct sq *sq, struct wqe *wqe);
int sq_add_inline(struct sq *sq, struct wqe *wqe, const void *data, size_t length);
int sq_set_ah(struct sq *sq, struct wqe *wqe, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
void sq_set_bind(struct wqe *wqe, struct ibv_mw *mw, uint32_t rkey,
		 const struct ibv_mw_bind_info *info);
int sq_end(struct sq *sq, struct wqe *wqe);
void sq_drop(struct sq *sq, struct wqe *wqe);
/*
 * Copies the data of unsent datagrams from `from` on that are no longer than `mtu`. `pd` is the
 * number of the QP's PD. UCX reuses the memory of a datagram before it completes, once the peer has
 * answered in another way; an adapter has sent it by then. Data that cannot be read stays in place,
 * and the request fails at its turn. Allocates only for requests beyond SQ_COPIES: perftest's
 * handler of SIGALRM allocates, too, and would wait for itself. The caller holds the QP's lock.
 */
void sq_keep_data(struct sq *sq, uint32_t from, uint32_t pd, uint32_t mtu);

/* Removes all requests from `tail` on, which were not issued. */
void sq_roll_back(struct sq *sq, uint32_t tail);

/* Forgets all requests of a QP that is reset. The caller holds the QP's lock. */
void sq_clear(struct sq *sq);

/*
 * Frees the places of all requests before `seq`: the program has their completions. The caller
 * holds the lock of the SQ's only CQ. Only lost completions come out of order.
 */
static inline void sq_release(struct sq *sq, uint32_t seq)
{
	if ((int32_t)(seq - atomic_load_explicit(&sq->released, memory_order_relaxed)) > 0)
		atomic_store_explicit(&sq->released, seq, memory_order_release);
}
/* base/check.h: between two operations on the queue. The caller holds the QP's lock. */
void sq_check(const struct sq *sq);

/* The data, if it is in the WQE or copied; NULL: it is in the SGEs. */
static inline const uint8_t *wqe_data(const struct wqe *wqe)
{
	return wqe->flags & IBV_SEND_INLINE ? wqe->inline_data : wqe->kept;
}

static inline bool wqe_has_failed(const struct wqe *wqe)
{
	return wqe->route == ROUTE_FAILED;
}

/* Whether any part of the request was issued, now or before a retry. */
static inline bool wqe_is_begun(const struct wqe *wqe)
{
	return wqe->done || wqe->begun;
}

/* Atomics and ATOMIC_WRITE have exactly 8 bytes (CONTRACT 37). */
static inline bool wqe_length_is_wrong(const struct wqe *wqe)
{
	return wqe->length != sizeof(uint64_t) &&
	       operation_is_of_a_word(opcode_operation(wqe->opcode));
}

/* Marks a request finished; qp_retire completes it. */
static inline void wqe_finish(struct wqe *wqe, enum ibv_wc_status status, enum cause cause)
{
	wqe->state = WQE_DONE;
	wqe->status = status;
	wqe->vendor_err = cause;
}

#endif
