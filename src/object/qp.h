/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP - queue pairs: state, attributes, and the two queues.
 *
 * In:  attribute changes (qp_modify.c), posted work.
 * Out: completions, async events. A path (struct qp_path) executes the posted work.
 *
 * Locks: qp->lock guards everything below it in the struct, the SQ included, and the head of the
 * QP's own RQ. Order: a link's receive lock, qp->lock, then a link's send lock, RQ and CQ locks.
 */
#ifndef OBJECT_QP_H
#define OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compat.h"
#include "base/cause.h"
#include "base/counter.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pace.h"
#include "base/psn.h"
#include "memory/memory.h"
#include "object/cq.h"
#include "object/live_object.h"
#include "object/pd.h"
#include "object/rq.h"
#include "object/sq.h"
#include "object/srq.h"

struct context;
struct qp;

/* The path of a QP in the child of a fork: executes nothing. */
extern const struct qp_path qp_path_orphan;

/*
 * The transport of a QP. Functions are called with qp->lock held, by any thread; none waits for a
 * peer.
 */
struct qp_path {
	/*
	 * The QP goes to RTR. Its attributes are set; peers do not see the new state yet. 0 or
	 * errno.
	 */
	int (*connect)(struct qp *qp);
	/*
	 * max_rd_atomic or max_dest_rd_atomic is set, at RTS or in SQD: makes rings for so many
	 * (execute/depth.h). 0, or errno with a cause: the attributes stay as they were. NULL: the
	 * path has none that depend on them.
	 */
	int (*set_depths)(struct qp *qp);
	/* Executes requests from sq.issue on: some are new, or have to be retried. */
	void (*issue)(struct qp *qp);
	/*
	 * Forgets messages under way and the message that is being received. The QP enters RESET or
	 * ERR, or is destroyed (state RESET); peers see the new state already. Touches no queue but
	 * the current receive: in ERR it completes with FLUSH_ERR, in RESET it is released if it is
	 * of an SRQ.
	 */
	void (*quiesce)(struct qp *qp);
	/* Frees the path's own memory. No other thread uses the QP any more. */
	void (*destroy)(struct qp *qp);
	/*
	 * iWARP: ends the connection in good order, as the QP is asked for SQD; then the QP goes to
	 * ERR. NULL: SQD is that of the IBA.
	 */
	void (*close)(struct qp *qp);
};

/*
 * Sets the function that chooses a QP's path at RTR; the adapter calls this once. The QP's
 * attributes are set, and qp->lock is held. If the path changes, the old one's `destroy` runs
 * first, then the new one's `connect`. Without such a function a QP keeps the path that it was
 * created with. 0, or an errno with a cause: the QP does not move.
 */
void qp_set_path_choice(int (*choose)(struct qp *qp, const struct qp_path **path));

struct qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex;
		struct compat_qp_ex newest;
	};
	bool has_ex; /* created with SEND_OPS_FLAGS: ibv_qp_to_qp_ex works */
	struct context *context;
	struct pd *pd;		      /* XRC_RECV: NULL */
	struct cq *send_cq, *recv_cq; /* XRC_SEND has no recv_cq, XRC_RECV no send_cq */
	struct srq *srq;	   /* or NULL; XRC_RECV: of the last message, as recv_cq and rq */
	struct xrcd *xrcd;	   /* XRC_RECV; NULL after ibv_destroy_qp of the first handle */
	struct xrc_domain *domain; /* XRC_RECV: with a reference */
	struct qp *real;	   /* of a handle of ibv_open_qp: the QP; else NULL */
	/* of XRC_RECV, guarded by the lock: the first handle and those of ibv_open_qp */
	uint32_t handles;
	struct list opened; /* those of ibv_open_qp, by their `link` */
	struct rq own_rq;
	struct rq *rq;		 /* &own_rq or &srq->rq */
	uint32_t index;		 /* in the table; qp_num = slot << 14 | index */
	uint32_t async_reported; /* guarded by the context's async lock */
	struct list link; /* in the list of all QPs (qp_visit), or in `opened` of the real QP */

	struct lock lock;
	_Atomic uint8_t state; /* enum ibv_qp_state; written under the lock */
	uint8_t type;	       /* enum ibv_qp_type */
	uint32_t remote_pd;    /* PD number for checks of the peer's R_Keys */
	enum cause failure;    /* why the QP is in ERR or SQE; CAUSE_NONE: by ibv_modify_qp */
	bool comm_established; /* COMM_EST was raised */
	bool flush_reported;
	bool last_wqe_raised;
	bool drained; /* in SQD: nothing in flight, SQ_DRAINED raised if asked for */
	bool alive;   /* false: destroyed, or not complete yet (qp_table.c) */
	_Atomic uint32_t attachments; /* to multicast groups, and flows; EBUSY while not 0 */
	struct ibv_qp_attr attr;      /* as modify set and query returns; cap is the granted one */
	struct ibv_ah_attr asked_av;  /* attr.ah_attr before verbs/link.h resolved it */
	struct ibv_qp_init_attr init;
	struct sq sq;
	struct arena_qp *entry;	    /* in shared memory, for peers */
	const struct qp_path *path; /* set at creation, and chosen again at each RTR */
	/* What adapter_prepare has found for that: path_is_shared, or -errno. */
	_Atomic int peer_shares;
	void *path_data;	/* the path's own */
	bool has_receive;	/* the QP has a current receive (execute/receive.h) */
	uint8_t receive_status; /* of that receive if the QP fails: enum ibv_wc_status */
	enum cause receive_cause;
	uint8_t receive_l3; /* of the datagram in it: enum receive_l3 */
	struct receive receive;
	psn_t datagram_psn; /* UD: of the next packet on the wire */
	struct pace datagram_pace;
	uint64_t datagram_cnp_ns; /* UD: when the last CNP was sent; 0: never */
	bool no_route;		  /* UD: the last send found no route; the cause is reported */
	bool closed;		  /* UD: takes no datagrams any more, as it is being destroyed */
	/*
	 * ibv_wr_*, from start to complete or abort: requests behind sq.tail, by a copy of the SQ
	 * with a tail of its own. builder_lock, which is outside the QP's, guards them;
	 * ibv_post_send takes it for a QP with has_ex, so nobody else adds requests. The program
	 * runs meanwhile, so no other lock is held.
	 */
	struct lock builder_lock;
	struct sq builder_sq;
	uint32_t builder_start;	 /* sq.tail at ibv_wr_start */
	struct wqe *builder_wqe; /* the current request; or NULL */
	int builder_error;
	struct live_object live;
};

/*
 * How many builder locks this thread holds, between ibv_wr_start and ibv_wr_complete: it does not
 * stand for a migration then (memory/hold.h), as a thread that waits for such a lock cannot.
 */
extern _Thread_local unsigned qp_building __attribute__((tls_model("initial-exec")));

static inline struct qp *qp_of(struct ibv_qp *ib)
{
	return (struct qp *)ib;
}

/* The QP; for a handle of ibv_open_qp the real QP. */
static inline struct qp *qp_real(struct ibv_qp *ib)
{
	struct qp *qp = qp_of(ib);

	return qp->real ? qp->real : qp;
}

static inline enum ibv_qp_state qp_state(const struct qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_acquire);
}

/* RC and XRC: the responder answers each request. */
static inline bool qp_is_reliable(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND ||
	       qp->type == IBV_QPT_XRC_RECV;
}

/* The type of QP that this one can be connected to. */
static inline uint8_t qp_peer_type(const struct qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
	       : qp->type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
					      : qp->type;
}

/* The peer, for checks of this end's R_Keys. */
static inline struct memory_peer qp_peer(const struct qp *qp)
{
	return (struct memory_peer){ .pd = qp->remote_pd, .qpn = qp->ib.qp_num };
}

static inline void qp_unlock(struct qp *qp) RELEASES(qp->lock)
{
	lock_release(&qp->lock);
}

/*
 * ibv_modify_qp: checks the transition and the attributes (qp_states.h), and applies all or
 * nothing. 0, or errno with a cause. The caller has checked what depends on the device, such as
 * addresses.
 */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* The path MTU in bytes; for UD the longest datagram. */
static inline uint32_t qp_mtu(const struct qp *qp)
{
	return 128u << qp->attr.path_mtu;
}

/*
 * Before the next qp_set_state: what peers remember of this index is of a connection that has
 * ended, see arena_qp.generation. The caller holds the QP's lock.
 */
static inline void qp_new_generation(struct qp *qp)
{
	_Atomic uint32_t *generation = &qp->entry->generation;

	atomic_store_explicit(generation,
			      atomic_load_explicit(generation, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/*
 * Barrier SOURCE: word and generation of arena_qp were stored; what the program stores to memory of
 * the requests that end now comes after them. A peer that fetches the payload of a SEND from there
 * loads the payload, then (acquire fence) both once more (payload_is_whole in shm/rendezvous.h).
 */
static inline void qp_fence_source(void)
{
	atomic_thread_fence(memory_order_release);
}

/* Publishes state, PD, rights and destination to peers (arena_qp), and sets qp->state. */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);

/*
 * Fails the QP: RC and UC go to ERR, UD goes to SQE. Finished requests retire first. All others,
 * and the receives, complete with FLUSH_ERR in order. A QP with an SRQ raises LAST_WQE_REACHED
 * instead of flushing receives. The caller has finished (wqe_finish) the request that failed, if
 * there is one. Raises no other event.
 */
void qp_fail(struct qp *qp, enum cause cause) REQUIRES(qp->lock);

/*
 * Moves the QP to ERR, UD as well, after a failed request of the peer or by ibv_modify_qp; see
 * qp_fail.
 */
void qp_enter_error(struct qp *qp, enum cause cause) REQUIRES(qp->lock);

/* Flushes both queues of a QP in ERR, or the SQ in SQE. Called after each post. */
void qp_flush(struct qp *qp) REQUIRES(qp->lock);

/*
 * Completes the finished requests at the head of the SQ, in order, up to one that is not WQE_DONE.
 * A failed request that reaches the head fails the QP (qp_fail). So a requester only finishes
 * requests (wqe_finish) and calls this; earlier requests under way come first. The caller holds the
 * QP's lock. Takes the send CQ's lock.
 */
void qp_retire(struct qp *qp);

/*
 * Raises an async event of the QP: for each handle that the program has, as Linux does. The caller
 * holds the QP's lock. Takes the context's async lock.
 */
void qp_raise(struct qp *qp, enum ibv_event_type type);

/* Counts an event of the QP for its device. */
void qp_count(const struct qp *qp, enum counter counter);
/* So many times, and sets *count to 0. */
void qp_count_many(const struct qp *qp, enum counter counter, uint32_t *count);

/* base/check.h: between two operations on the QP. The caller holds the lock. */
void qp_check(const struct qp *qp);

#endif
