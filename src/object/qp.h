/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP - queue pairs: state, attributes, their two queues; the table of them.
 *
 * In:  attribute changes (qp_modify), posted work.
 * Out: completions, async events; what is posted is carried out by a path (struct qp_path).
 *
 * Locks: qp->lock guards everything below it in the struct, the SQ included. It is taken inside
 * a link's receive lock and outside a link's send lock, RQ and CQ locks. The table is read without
 * locks of its own: see qp_table.c.
 */
#ifndef OBJECT_QP_H
#define OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cause.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pace.h"
#include "memory/memory.h"
#include "object/cq.h"
#include "object/live_object.h"
#include "object/pd.h"
#include "object/rq.h"
#include "object/sq.h"
#include "object/srq.h"

struct context;
struct qp;

/* Nothing of the QP's work is carried out: what is left of a QP in the child of a fork. */
extern const struct qp_path qp_path_orphan;

/*
 * The way that a QP's work takes. All are called with qp->lock held, by any thread; none blocks
 * for a peer.
 */
struct qp_path {
	/* The QP goes to RTR: its attributes are set, nothing is published yet. 0 or errno. */
	int (*connect)(struct qp *qp);
	/* There is new work behind sq.issue, or a reason to try again. */
	void (*issue)(struct qp *qp);
	/*
	 * The QP enters RESET or ERR or is destroyed (then its state is RESET): forget messages on the
	 * way and the message that is being received. The state is already published. Does not touch
	 * queues, except for a receive that was taken and is not complete: with ERR it completes with
	 * FLUSH_ERR here (cq_push), with RESET it is given back with rq_release if it is of an SRQ.
	 */
	void (*quiesce)(struct qp *qp);
	/* The path's own memory is freed; nothing refers to the QP any more. */
	void (*destroy)(struct qp *qp);
};

/*
 * Which path a QP takes that goes to RTR, with its attributes set; asked with qp->lock held, before
 * the path's `connect`. A QP that changes its path is destroyed for the old one first. Set once by
 * the adapter; without it a QP keeps the path that it was created with.
 */
void qp_set_path_choice(const struct qp_path *(*choose)(struct qp *qp));

struct qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex;
	};
	void *ex_newer[4];	 /* wr_flush of newer headers lies right behind ibv_qp_ex */
	bool has_ex;		 /* made with SEND_OPS_FLAGS: ibv_qp_to_qp_ex works */
	struct context *context;
	struct pd *pd;		 /* XRC_RECV: NULL */
	struct cq *send_cq, *recv_cq; /* XRC_SEND has no recv_cq, XRC_RECV no send_cq */
	struct srq *srq;	 /* or NULL; of XRC_RECV, as recv_cq and rq: of the last message */
	struct xrcd *xrcd;	 /* XRC_RECV; NULL once ibv_destroy_qp was called on the first handle */
	struct xrc_domain *domain; /* XRC_RECV: with a reference */
	struct qp *target;	 /* of ibv_open_qp: whose handle this is; else NULL */
	_Atomic uint32_t handles; /* XRC_RECV: the first one and those of ibv_open_qp */
	struct rq own_rq;
	struct rq *rq;		 /* &own_rq or &srq->rq */
	uint32_t index;		 /* in the table; qp_num = slot << 14 | index */
	uint32_t async_reported; /* guarded by the context's async lock */
	struct list link;	 /* in the list of all QPs (qp_visit) */

	struct lock lock;
	_Atomic uint8_t state;	 /* enum ibv_qp_state; written under the lock */
	uint8_t type;		 /* enum ibv_qp_type */
	uint32_t remote_pd;	 /* number of the PD that R_Keys of the peer are checked against */
	enum cause failure;	 /* why it is in ERR or SQE; CAUSE_NONE: ibv_modify_qp */
	bool comm_established;	 /* COMM_EST was raised */
	bool flush_reported;
	bool last_wqe_raised;
	bool drained;		 /* in SQD: nothing is in flight, and SQ_DRAINED was raised if wanted */
	bool alive;		 /* false: destroyed, or not made yet (qp_table.c) */
	_Atomic uint32_t attachments; /* to multicast groups, and flows, counted by whoever attaches; EBUSY */
	struct ibv_qp_attr attr; /* what modify set, what query returns; cap is the granted one */
	struct ibv_ah_attr asked_av; /* what ah_attr was before verbs/link.h resolved it */
	struct ibv_qp_init_attr init;
	struct sq sq;
	struct arena_qp *entry;	 /* what peers see */
	const struct qp_path *path; /* set at creation, and chosen again at each RTR */
	void *path_data;	 /* the path's own */
	bool has_receive;	 /* what follows is in use: execute/receive.h */
	uint8_t receive_status;	 /* what it ends with if the QP fails: enum ibv_wc_status */
	enum cause receive_cause;
	uint8_t receive_l3;	 /* of the datagram in it: enum receive_l3 */
	struct receive receive;
	uint32_t datagram_psn;	 /* UD: of the next packet on the wire; and how many may leave */
	struct pace datagram_pace;
	bool no_route;		 /* UD: the wire took none since the last that left; reported */
	/* ibv_wr_*, which hold the lock from start to complete or abort */
	uint32_t builder_start;	 /* sq.tail at ibv_wr_start */
	struct wqe *builder_wqe; /* begun and not ended; NULL */
	int builder_error;
	struct live_object live;
};

/*
 * How many QPs this thread has locked between ibv_wr_start and ibv_wr_complete. It makes no progress
 * meanwhile: what arrived for those QPs would wait for a lock that the thread itself holds.
 */
extern _Thread_local unsigned qp_building __attribute__((tls_model("initial-exec")));

static inline struct qp *qp_of(struct ibv_qp *ib)
{
	return (struct qp *)ib;
}

/* Of a handle of ibv_open_qp: the QP itself. */
static inline struct qp *qp_behind(struct ibv_qp *ib)
{
	struct qp *qp = qp_of(ib);

	return qp->target ? qp->target : qp;
}

static inline enum ibv_qp_state qp_state(const struct qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_acquire);
}

/* RC and its relatives: each request is answered. */
static inline bool qp_is_reliable(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;
}

/* The type of QP that this one can be connected to. */
static inline uint8_t qp_peer_type(const struct qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV :
	       qp->type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND :
					      qp->type;
}

/* The other end, as R_Keys of ours have to know it. */
static inline struct memory_peer qp_peer(const struct qp *qp)
{
	return (struct memory_peer){ .pd = qp->remote_pd, .qpn = qp->ib.qp_num };
}

/* Once per adapter. */
int qp_table_init(void *arena, uint32_t slot);

/*
 * Right after that: QPs are numbered from somewhere else on. Slots are used again at once, so the QPs of
 * processes one after another would have the same numbers, which peers still remember: Linux's connection
 * manager takes the second for the first.
 */
void qp_table_turn(uint32_t by);
void qp_table_reset_after_fork(void);

/*
 * Finds the QP with this number and locks it; false if there is none. Any thread, without locks of
 * QPs held. A QP that is being destroyed is not found, and is not freed while it is locked.
 */
bool qp_find_locked(uint32_t qpn, struct qp **qp) TRY_ACQUIRES((*qp)->lock);

static inline void qp_unlock(struct qp *qp) RELEASES(qp->lock)
{
	lock_release(&qp->lock);
}

/*
 * Calls visit, which REQUIRES(qp->lock), for each QP of the process until it returns false. Visit
 * does not create or destroy QPs, nor does anybody else meanwhile. No lock of a QP may be held.
 */
void qp_visit(bool (*visit)(struct qp *qp, void *arg), void *arg);

/*
 * A new QP in RESET: 0, -EINVAL (limits, objects of another context), -EOPNOTSUPP, -ENOMEM; with a
 * cause. Of `attr` the fields of ibv_qp_init_attr are read, and cap is written back.
 */
int qp_create(struct context *context, struct pd *pd, struct ibv_qp_init_attr_ex *attr,
	      const struct qp_path *path, struct qp **qp);

/*
 * ibv_open_qp: another handle for the XRC_RECV QP with this number, if it is of the domain: 0,
 * -EINVAL (there is none), -ENOMEM. The handle's fields of struct ibv_qp and `target` are set, nothing
 * else. The QP goes with the last of its handles (qp_destroy).
 */
int qp_open(struct context *context, struct xrcd *xrcd, uint32_t qpn, void *qp_context,
	    struct qp **handle);

/*
 * 0, or -EBUSY while attached to multicast groups, or with flows. Completions of the QP that were not polled are
 * gone. Waits for the acknowledgement of events that were fetched.
 */
int qp_destroy(struct qp *qp);

/*
 * ibv_modify_qp: checks the move and the attributes against qp_states.h, all or nothing. 0, or a
 * positive errno with a cause. The caller has checked what depends on the device (addresses).
 */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* The longest datagram, or the path MTU of a connection, in bytes. */
static inline uint32_t qp_mtu(const struct qp *qp)
{
	return 128u << qp->attr.path_mtu;
}

/*
 * Publishes the state, the PD, the rights and the destination to peers (arena_qp) and sets
 * qp->state. Caller holds the lock.
 */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);

/*
 * The QP fails: RC and UC go to ERR, UD's send queue to SQE. Work that is finished retires first;
 * all other work completes with FLUSH_ERR in order, send and receive queue (not an SRQ, whose QP
 * raises LAST_WQE_REACHED instead). The caller has already finished (wqe_finish) the request that
 * failed, if one did. Raises no other event. Caller holds the lock.
 */
void qp_fail(struct qp *qp, enum cause cause) REQUIRES(qp->lock);

/*
 * To ERR, because a request of the peer failed or the program wants it: like qp_fail, but for UD
 * too. Caller holds the lock.
 */
void qp_enter_error(struct qp *qp, enum cause cause) REQUIRES(qp->lock);

/*
 * Completes everything in the queues of a QP that is in ERR, in the send queue if it is in SQE.
 * Called after each post. Caller holds the lock.
 */
void qp_flush(struct qp *qp) REQUIRES(qp->lock);

/* Raises an async event of the QP. Any locks may be held but the async lock. */
void qp_raise(struct qp *qp, enum ibv_event_type type);

#endif
