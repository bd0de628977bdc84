/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/psn.h"
#include "object/limits.h"
#include "object/qp.h"
#include "object/qp_states.h"

#define QPN_MAX		 0xffffffu
#define TIMEOUT_MAX	 31 /* 4.096 us * 2^31 */
#define RETRY_MAX	 7
#define RNR_TIMER_MAX	 31
#define ACCESS_FLAGS_MAX (IBV_ACCESS_OPTIONAL_RANGE | 0x3ff) /* includes FLUSH of newer headers */

struct change {
	const struct ibv_qp_attr *attr;
	int mask;
	enum ibv_qp_state from, to;
};

static int refuse(const struct qp *qp, const struct change *change, int error, const char *what,
		  uint32_t value)
{
	cause_report(CAUSE_MODIFY_REFUSED, qp->ib.qp_num, "%s to %s: %s %u (0x%x)",
		     qp_state_name(change->from), qp_state_name(change->to), what, value, value);
	return error;
}

static int check_move(const struct qp *qp, const struct change *change)
{
	int which = 0;

	if (change->mask & IBV_QP_CUR_STATE && change->attr->cur_qp_state != change->from)
		return refuse(qp, change, EINVAL, "cur_qp_state is not the state, but",
			      change->attr->cur_qp_state);
	switch (qp_move_check(change->from, change->to, qp->sq.type, change->mask, &which)) {
	case MOVE_OK:
		return 0;
	case MOVE_ILLEGAL:
		return refuse(qp, change, EINVAL, "there is no such move; attr_mask",
			      (uint32_t)change->mask);
	case MOVE_LACKS:
		return refuse(qp, change, EINVAL, "attr_mask lacks", (uint32_t)which);
	case MOVE_EXCEEDS:
	default:
		if (which & IBV_QP_ALT_PATH || which & IBV_QP_CAP)
			return refuse(qp, change, EOPNOTSUPP, "not offered: attr_mask",
				      (uint32_t)which);
		return refuse(qp, change, EINVAL, "attr_mask exceeds by", (uint32_t)which);
	}
}

/* Whether the attribute is in the mask with a value above `max`. */
static bool above(const struct change *change, int bit, uint32_t value, uint32_t max)
{
	return change->mask & bit && value > max;
}

/* The service level and the rate have no effect. */
static bool is_same_path(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
	return !memcmp(a->grh.dgid.raw, b->grh.dgid.raw, sizeof(a->grh.dgid)) &&
	       a->grh.sgid_index == b->grh.sgid_index && a->grh.flow_label == b->grh.flow_label &&
	       a->grh.hop_limit == b->grh.hop_limit && a->grh.traffic_class == b->grh.traffic_class;
}

static int check_values(const struct qp *qp, const struct change *change)
{
	const struct ibv_qp_attr *attr = change->attr;
	int mask = change->mask;

	if (mask & IBV_QP_ALT_PATH)
		return refuse(qp, change, EOPNOTSUPP, "alternate paths are not offered; port",
			      attr->alt_port_num);
	if (change->from == IBV_QPS_SQD && mask & IBV_QP_AV &&
	    !is_same_path(&attr->ah_attr, &qp->attr.ah_attr))
		return refuse(qp, change, EOPNOTSUPP,
			      "another address vector than that of RTR; port",
			      attr->ah_attr.port_num);
	if (mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED)
		return refuse(qp, change, EOPNOTSUPP, "path_mig_state", attr->path_mig_state);
	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return refuse(qp, change, EINVAL, "port_num", attr->port_num);
	if (mask & IBV_QP_AV && attr->ah_attr.port_num != 1)
		return refuse(qp, change, EINVAL, "ah_attr.port_num", attr->ah_attr.port_num);
	if (above(change, IBV_QP_PKEY_INDEX, attr->pkey_index, LIMIT_PKEYS - 1))
		return refuse(qp, change, EINVAL, "pkey_index", attr->pkey_index);
	if (mask & IBV_QP_PATH_MTU &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
		return refuse(qp, change, EINVAL, "path_mtu", attr->path_mtu);
	if (above(change, IBV_QP_DEST_QPN, attr->dest_qp_num, QPN_MAX))
		return refuse(qp, change, EINVAL, "dest_qp_num", attr->dest_qp_num);
	if (above(change, IBV_QP_TIMEOUT, attr->timeout, TIMEOUT_MAX))
		return refuse(qp, change, EINVAL, "timeout", attr->timeout);
	if (above(change, IBV_QP_RETRY_CNT, attr->retry_cnt, RETRY_MAX))
		return refuse(qp, change, EINVAL, "retry_cnt", attr->retry_cnt);
	if (above(change, IBV_QP_RNR_RETRY, attr->rnr_retry, RETRY_MAX))
		return refuse(qp, change, EINVAL, "rnr_retry", attr->rnr_retry);
	if (above(change, IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer, RNR_TIMER_MAX))
		return refuse(qp, change, EINVAL, "min_rnr_timer", attr->min_rnr_timer);
	if (above(change, IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic, LIMIT_QP_RD_ATOM))
		return refuse(qp, change, EINVAL, "max_rd_atomic", attr->max_rd_atomic);
	if (above(change, IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic, LIMIT_QP_RD_ATOM))
		return refuse(qp, change, EINVAL, "max_dest_rd_atomic", attr->max_dest_rd_atomic);
	if (mask & IBV_QP_ACCESS_FLAGS && attr->qp_access_flags & ~(unsigned int)ACCESS_FLAGS_MAX)
		return refuse(qp, change, EINVAL, "qp_access_flags", attr->qp_access_flags);
	return 0;
}

#define COPY(bit, field)                                                                           \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = from->field;                                                   \
	} while (0)

static void set_attributes(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	COPY(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	COPY(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	COPY(IBV_QP_PKEY_INDEX, pkey_index);
	COPY(IBV_QP_PORT, port_num);
	COPY(IBV_QP_QKEY, qkey);
	COPY(IBV_QP_AV, ah_attr);
	COPY(IBV_QP_PATH_MTU, path_mtu);
	COPY(IBV_QP_TIMEOUT, timeout);
	COPY(IBV_QP_RETRY_CNT, retry_cnt);
	COPY(IBV_QP_RNR_RETRY, rnr_retry);
	COPY(IBV_QP_RQ_PSN, rq_psn);
	COPY(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	COPY(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	COPY(IBV_QP_SQ_PSN, sq_psn);
	COPY(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	COPY(IBV_QP_PATH_MIG_STATE, path_mig_state);
	COPY(IBV_QP_DEST_QPN, dest_qp_num);
	to->rq_psn = psn_of(to->rq_psn).number;
	to->sq_psn = psn_of(to->sq_psn).number;
}

#undef COPY

/* Resets the QP to its state at creation. Removes its completions that were not polled. */
static void reset(struct qp *qp) REQUIRES(qp->lock)
{
	enum ibv_mtu mtu = qp->attr.path_mtu;

	qp_new_generation(qp);
	qp_set_state(qp, IBV_QPS_RESET);
	qp->path->quiesce(qp);
	if (qp->send_cq)
		cq_purge(qp->send_cq, qp);
	if (qp->recv_cq && qp->type != IBV_QPT_XRC_RECV)
		cq_purge(qp->recv_cq, qp);
	sq_clear(&qp->sq);
	rq_clear(&qp->own_rq);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->entry->path = ARENA_PATH_NONE;
	qp->attr.cap = qp->init.cap;
	qp->attr.path_mtu = mtu;
	qp->failure = CAUSE_NONE;
	qp->comm_established = qp->flush_reported = qp->last_wqe_raised = qp->drained = false;
	qp->sq.full_reported = false;
}

/* Enters SQD. The SQ is drained at once if nothing is in flight. */
static void drain(struct qp *qp, bool notify) REQUIRES(qp->lock)
{
	qp->drained = false;
	qp->attr.en_sqd_async_notify = notify;
	qp_retire(qp);
}

static int (*choose_path)(struct qp *qp, const struct qp_path **path);

void qp_set_path_choice(int (*choose)(struct qp *qp, const struct qp_path **path))
{
	choose_path = choose;
}

static int connect(struct qp *qp) REQUIRES(qp->lock)
{
	const struct qp_path *path = qp->path;
	int error = choose_path ? choose_path(qp, &path) : 0;

	if (error)
		return error;
	if (path != qp->path) {
		qp->path->destroy(qp);
		qp->path = path;
	}
	return path->connect(qp);
}

/* What a move allocates, before anything else of it. The attributes are set. */
static int prepare(struct qp *qp, const struct change *change) REQUIRES(qp->lock)
{
	if (change->to == IBV_QPS_RTR)
		return connect(qp);
	if (change->mask & (IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC) &&
	    qp->path->set_depths)
		return qp->path->set_depths(qp);
	return 0;
}

static int apply(struct qp *qp, const struct change *change) REQUIRES(qp->lock)
{
	struct ibv_qp_attr before = qp->attr;
	int error;

	/* iWARP: the QP stays in RTS until both ends have closed, then goes to ERR. */
	if (change->to == IBV_QPS_SQD && qp->path->close) {
		qp->path->close(qp);
		return 0;
	}
	set_attributes(&qp->attr, change->attr, change->mask);
	error = prepare(qp, change);
	if (error) {
		qp->attr = before;
		return error;
	}
	switch (change->to) {
	case IBV_QPS_RESET:
		reset(qp);
		break;
	case IBV_QPS_ERR:
		qp_enter_error(qp, CAUSE_NONE);
		break;
	default:
		qp_set_state(qp, change->to);
		break;
	}
	if (change->to == IBV_QPS_SQD && change->from == IBV_QPS_RTS)
		drain(qp, change->mask & IBV_QP_EN_SQD_ASYNC_NOTIFY &&
				  change->attr->en_sqd_async_notify);
	if (change->to == IBV_QPS_RTS && change->from != IBV_QPS_RTS) {
		qp->failure = CAUSE_NONE;
		qp->flush_reported = false;
		if (qp->sq.issue != qp->sq.tail)
			qp->path->issue(qp);
	}
	return 0;
}

int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct change change = { .attr = attr, .mask = qp_move_mask(qp->sq.type, mask) };
	int error;

	lock_acquire(&qp->lock);
	change.from = qp_state(qp);
	change.to = mask & IBV_QP_STATE ? attr->qp_state : change.from;
	error = check_move(qp, &change);
	if (!error)
		error = check_values(qp, &change);
	if (!error)
		error = apply(qp, &change);
	CHECK(qp_check(qp));
	lock_release(&qp->lock);
	return error;
}
