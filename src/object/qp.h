/*
 * QP - queue pairs: state, attributes, their two queues; the table of them.
 *
 * In:  attribute changes (qp_modify), posted work.
 * Out: completions, async events; what is posted is carried out by a path (struct qp_path).
 *
 * Locks: qp->lock guards everything below it in the struct, the SQ included. It is taken inside
 * a link's receive lock and outside a link's send lock, RQ and CQ locks. The table is read without
 * locks under qp_find's rule.
 */
#ifndef OBJECT_QP_H
#define OBJECT_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cause.h"
#include "base/list.h"
#include "base/lock.h"
#include "object/cq.h"
#include "object/pd.h"
#include "object/rq.h"
#include "object/sq.h"
#include "object/srq.h"

struct context;
struct qp;

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
	 * The QP enters RESET or ERR or is destroyed: forget messages on the way and the message that
	 * is being received. The state is already published. Does not touch queues.
	 */
	void (*quiesce)(struct qp *qp);
	/* The path's own memory is freed; nothing refers to the QP any more. */
	void (*destroy)(struct qp *qp);
};

struct qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex;
	};
	void *ex_newer[4];	 /* wr_flush of newer headers lies right behind ibv_qp_ex */
	bool has_ex;		 /* made with SEND_OPS_FLAGS: ibv_qp_to_qp_ex works */
	struct context *context;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;	 /* or NULL */
	struct rq own_rq;
	struct rq *rq;		 /* &own_rq or &srq->rq */
	uint32_t index;		 /* in the table; qp_num = slot << 14 | index */
	uint32_t async_reported; /* guarded by the context's async lock */
	struct list link;	 /* in the list of all QPs (qp_visit) */

	struct lock lock;
	_Atomic uint8_t state;	 /* enum ibv_qp_state; written under the lock */
	uint8_t type;		 /* enum ibv_qp_type */
	bool comm_established;	 /* COMM_EST was raised */
	bool flush_reported;
	bool last_wqe_raised;
	struct ibv_qp_attr attr; /* what modify set, what query returns; cap is the granted one */
	struct ibv_qp_init_attr init;
	struct sq sq;
	struct arena_qp *entry;	 /* what peers see */
	const struct qp_path *path; /* set at creation */
	void *path_data;	 /* the path's own */
	uint32_t builder_start;	 /* ibv_wr_*: sq.tail at ibv_wr_start */
	int builder_error;
};

static inline struct qp *qp_of(struct ibv_qp *ib)
{
	return (struct qp *)ib;
}

static inline enum ibv_qp_state qp_state(const struct qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_acquire);
}

/* Once per adapter. */
int qp_table_init(void *arena, uint32_t slot);
void qp_table_reset_after_fork(void);

/*
 * The QP with this number, locked; NULL if there is none. Any thread, without locks of QPs held.
 * The table's lock makes sure that a QP is not freed between lookup and lock; qp_unlock lets go.
 */
struct qp *qp_find_locked(uint32_t qpn) LOCK_ATTR(no_thread_safety_analysis);

static inline void qp_unlock(struct qp *qp) NO_LOCK_CHECK
{
	lock_release(&qp->lock);
}

/*
 * Calls visit for each QP of the process, locked, until it returns false. Visit does not create or
 * destroy QPs.
 */
void qp_visit(bool (*visit)(struct qp *qp, void *arg), void *arg);

/*
 * Publishes the state to peers (arena_qp.word) and sets qp->state. Caller holds the lock.
 */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);

/*
 * The QP fails: RC and UC go to ERR, UD's send queue to SQE. Work that is finished retires first;
 * all other work completes with FLUSH_ERR in order, send and receive queue (not an SRQ, whose QP
 * raises LAST_WQE_REACHED instead). The caller has already finished (wqe_finish) the request that
 * failed, if one did. Raises no other event. Caller holds the lock.
 */
void qp_fail(struct qp *qp, enum cause cause) REQUIRES(qp->lock);

/* Completes everything in the queues of a QP that is in ERR. Called after each post. Holds the lock. */
void qp_flush(struct qp *qp) REQUIRES(qp->lock);

/* Raises an async event of the QP (object/events.h). Any locks may be held but the async lock. */
void qp_raise(struct qp *qp, enum ibv_event_type type);

#endif
