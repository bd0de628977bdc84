/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp_create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/acknowledge.h"
#include "object/context.h"
#include "object/limits.h"
#include "object/mw.h"
#include "object/qp_table.h"
#include "object/xrcd.h"

static int check_cap(const struct ibv_qp_cap *cap, bool with_srq)
{
	if (cap->max_send_wr > LIMIT_QP_WR || cap->max_send_sge > LIMIT_SGE ||
	    (!with_srq && (cap->max_recv_wr > LIMIT_QP_WR || cap->max_recv_sge > LIMIT_SGE))) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0,
			     "QP: max_send_wr %u, max_recv_wr %u (at most %u), max_send_sge %u, "
			     "max_recv_sge %u (%u)",
			     cap->max_send_wr, cap->max_recv_wr, LIMIT_QP_WR, cap->max_send_sge,
			     cap->max_recv_sge, LIMIT_SGE);
		return -EINVAL;
	}
	if (cap->max_inline_data <= LIMIT_INLINE)
		return 0;
	/* Only noted: no query returns the limit, so programs find it out by trying. */
	cause_note(CAUSE_LIMIT_EXCEEDED, 0, "QP: max_inline_data %u (at most %u)",
		   cap->max_inline_data, LIMIT_INLINE);
	return -EINVAL;
}

static int refuse(enum cause cause, int error, const char *what)
{
	cause_report(cause, 0, "%s", what);
	return error;
}

static int check_objects(struct ibv_context *ib, const struct pd *pd,
			 const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return attr->xrcd->context == ib
			       ? 0
			       : refuse(CAUSE_OTHER_CONTEXT, -EINVAL, "QP and its XRC domain");
	if (!attr->send_cq)
		return refuse(CAUSE_ARGUMENT_INVALID, -EINVAL, "a QP without send CQ");
	if (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND)
		return refuse(CAUSE_ARGUMENT_INVALID, -EINVAL, "a QP without receive CQ");
	if (pd->ib.context == ib && attr->send_cq->context == ib &&
	    (!attr->recv_cq || attr->recv_cq->context == ib) &&
	    (!attr->srq || attr->srq->context == ib))
		return 0;
	return refuse(CAUSE_OTHER_CONTEXT, -EINVAL, "QP and its PD, CQs or SRQ");
}

static int check_attr(struct context *context, const struct pd *pd,
		      const struct ibv_qp_init_attr_ex *attr)
{
	int error;

	switch ((int)attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_RAW_PACKET:
		break;
	default:
		cause_report(CAUSE_UNSUPPORTED, 0, "QP type %d", attr->qp_type);
		return -EOPNOTSUPP;
	}
	error = check_objects(&context->verbs.context, pd, attr);
	if (error)
		return error;
	if (attr->srq && srq_of(attr->srq)->type == IBV_SRQT_XRC)
		return refuse(CAUSE_WRONG_TYPE, -EINVAL,
			      "an XRC SRQ is named by requests, not by QPs");
	return check_cap(&attr->cap, attr->srq);
}

/*
 * Clears attributes that the type does not have. An XRC_RECV QP has no queues, because SRQs have
 * its receives and completions. An XRC_SEND QP does not receive.
 */
static void narrow(struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type != IBV_QPT_XRC_SEND && attr->qp_type != IBV_QPT_XRC_RECV)
		return;
	attr->recv_cq = NULL;
	attr->srq = NULL;
	attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		return;
	attr->send_cq = NULL;
	memset(&attr->cap, 0, sizeof(attr->cap));
}

/*
 * Grants the requested capabilities, and at least one SGE. As with adapters, inline data may always
 * be as long as an SGE: programs send 16 bytes inline without requesting it.
 */
static void grant(struct ibv_qp_cap *cap, bool with_srq)
{
	if (with_srq)
		cap->max_recv_wr = cap->max_recv_sge = 0;
	if (cap->max_send_wr && !cap->max_send_sge)
		cap->max_send_sge = 1;
	if (cap->max_recv_wr && !cap->max_recv_sge)
		cap->max_recv_sge = 1;
	if (cap->max_send_sge && cap->max_inline_data < sizeof(struct ibv_sge))
		cap->max_inline_data = sizeof(struct ibv_sge);
}

static void set_fields(struct qp *qp, struct context *context, struct pd *pd,
		       const struct ibv_qp_init_attr_ex *attr)
{
	struct xrcd *xrcd = attr->qp_type == IBV_QPT_XRC_RECV ? xrcd_of(attr->xrcd) : NULL;

	qp->ib.context = &context->verbs.context;
	qp->ib.qp_context = attr->qp_context;
	qp->ib.pd = pd ? &pd->ib : NULL;
	qp->ib.send_cq = attr->send_cq;
	qp->ib.recv_cq = attr->recv_cq;
	qp->ib.srq = attr->srq;
	qp->ib.handle = qp->index;
	qp->ib.state = IBV_QPS_RESET;
	qp->ib.qp_type = attr->qp_type;
	pthread_mutex_init(&qp->ib.mutex, NULL);
	pthread_cond_init(&qp->ib.cond, NULL);
	qp->context = context;
	qp->pd = pd;
	qp->remote_pd = pd ? pd->number : 0;
	qp->xrcd = xrcd;
	qp->domain = xrcd ? xrcd->domain : NULL;
	qp->handles = 1;
	list_init(&qp->opened);
	qp->send_cq = attr->send_cq ? cq_of(attr->send_cq) : NULL;
	qp->recv_cq = attr->recv_cq ? cq_of(attr->recv_cq) : NULL;
	qp->srq = attr->srq ? srq_of(attr->srq) : NULL;
	qp->rq = qp->srq ? &qp->srq->rq : &qp->own_rq;
	qp->own_rq.qpn = qp->sq.qpn = qp->ib.qp_num;
	qp->type = (uint8_t)attr->qp_type;
	qp->sq.type = context->iwarp ? OPCODE_QPT_RNIC : qp->type;
	/* struct ibv_qp_init_attr_ex begins with the fields of struct ibv_qp_init_attr */
	memcpy(&qp->init, attr, sizeof(qp->init));
}

static void reset_attr(struct qp *qp)
{
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->attr.cap = qp->init.cap;
	qp->attr.path_mtu = IBV_MTU_1024;
	qp->attr.path_mig_state = IBV_MIG_MIGRATED;
}

/* Adds `by`, 1 or -1, to the users of the QP's PD, CQs and SRQ. */
static void count_users(struct qp *qp, int by)
{
	if (qp->type == IBV_QPT_XRC_RECV) {
		if (qp->xrcd)
			atomic_fetch_add(&qp->xrcd->users, by);
		atomic_fetch_add(&qp->context->objects, by);
		if (by > 0)
			xrc_domain_get(qp->domain);
		else
			xrc_domain_put(qp->domain);
		return;
	}
	if (by > 0)
		pd_get(qp->pd);
	else
		pd_put(qp->pd);
	atomic_fetch_add(&qp->send_cq->users, by);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->users, by);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, by);
}

static int create(struct context *context, struct pd *pd, struct ibv_qp_init_attr_ex *attr,
		  const struct qp_path *path, struct qp **qp)
{
	struct ibv_qp_cap cap;
	struct qp *new;
	int error;

	cap = attr->cap;
	error = check_attr(context, pd, attr);
	if (error)
		return error;
	error = qp_table_reserve(&new);
	if (error)
		return error;
	grant(&cap, attr->srq);
	if (rq_init(&new->own_rq, cap.max_recv_wr, cap.max_recv_sge))
		goto no_rq;
	if (sq_init(&new->sq, &cap, attr->sq_sig_all, attr->qp_type == IBV_QPT_UD))
		goto no_sq;
	attr->cap = cap;
	set_fields(new, context, pd, attr);
	reset_attr(new);
	new->path = path;
	count_users(new, 1);
	lock_acquire(&new->lock);
	qp_set_state(new, IBV_QPS_RESET);
	lock_release(&new->lock);
	qp_table_publish(new);
	*qp = new;
	return 0;

no_sq:
	rq_fini(&new->own_rq);
no_rq:
	qp_table_free(new);
	cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "QP with %u send and %u receive requests",
		     cap.max_send_wr, cap.max_recv_wr);
	return -ENOMEM;
}

/* Of the program's attributes the granted capabilities alone change. */
int qp_create(struct context *context, struct pd *pd, struct ibv_qp_init_attr_ex *attr,
	      const struct qp_path *path, struct qp **qp)
{
	struct ibv_cq *send_cq = attr->send_cq, *recv_cq = attr->recv_cq;
	struct ibv_srq *srq = attr->srq;
	struct ibv_qp_cap cap = attr->cap;
	int error;

	narrow(attr);
	error = create(context, pd, attr, path, qp);
	attr->send_cq = send_cq;
	attr->recv_cq = recv_cq;
	attr->srq = srq;
	if (error)
		attr->cap = cap;
	return error;
}

/* Drops the pending events, and waits until the fetched ones are acknowledged. */
static void settle_events(struct qp *qp)
{
	uint32_t reported = context_drop_events(qp->context, &qp->ib, &qp->async_reported);

	acknowledge_wait(&qp->ib.mutex, &qp->ib.cond, &qp->ib.events_completed, reported);
}

/* Finds the XRC_RECV QP with this number in the domain, and locks it. */
static bool find_target(uint32_t qpn, const struct xrcd *xrcd, struct qp **qp)
	TRY_ACQUIRES((*qp)->lock)
{
	if (!qp_find_locked(qpn, qp))
		return false;
	/* without handles it is being destroyed */
	if ((*qp)->type == IBV_QPT_XRC_RECV && (*qp)->domain == xrcd->domain && (*qp)->handles)
		return true;
	qp_unlock(*qp);
	return false;
}

/* The lock of the QP may have been held, so its list of handles may be half changed. */
static void reset_after_fork(struct live_object *node)
{
	struct qp *handle = container_of(node, struct qp, live);

	list_init(&handle->link);
	lock_init(&handle->lock);
	lock_init(&handle->builder_lock);
	lock_init(&handle->own_rq.lock);
	acknowledge_reset_after_fork(&handle->ib.mutex, &handle->ib.cond);
	handle->ib.events_completed = handle->async_reported = 0;
}

int qp_open(struct context *context, struct xrcd *xrcd, uint32_t qpn, void *qp_context,
	    struct qp **handle)
{
	struct qp *new = calloc(1, sizeof(*new)), *qp;

	if (!new) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "a handle of QP 0x%06x", qpn);
		return -ENOMEM;
	}
	if (!find_target(qpn, xrcd, &qp)) {
		cause_report(CAUSE_ARGUMENT_INVALID, qpn, "it is no XRC_RECV QP of this domain");
		free(new);
		return -EINVAL;
	}
	new->ib = qp->ib;
	new->ib.context = &context->verbs.context;
	new->ib.qp_context = qp_context;
	new->type = qp->type;
	new->context = context;
	new->real = qp;
	new->xrcd = xrcd;
	new->live.after_fork = reset_after_fork;
	lock_init(&new->lock);
	rq_init(&new->own_rq, 0, 0);
	new->rq = &new->own_rq;
	pthread_mutex_init(&new->ib.mutex, NULL);
	pthread_cond_init(&new->ib.cond, NULL);
	new->ib.events_completed = 0;
	qp->handles++;
	list_add_tail(&qp->opened, &new->link);
	atomic_fetch_add(&xrcd->users, 1);
	qp_unlock(qp);
	*handle = new;
	return 0;
}

/*
 * Closes a handle of an XRC_RECV QP. True: others are left; the QP, the first handle's struct,
 * stays.
 */
static bool close_handle(struct qp *handle, struct qp *qp)
{
	bool stays;

	lock_acquire(&qp->lock);
	if (handle != qp)
		list_del(&handle->link);
	atomic_fetch_sub(&handle->xrcd->users, 1);
	handle->xrcd = NULL;
	lock_release(&qp->lock);
	settle_events(handle);
	/* Last: with the last one the QP goes. */
	lock_acquire(&qp->lock);
	stays = --qp->handles > 0;
	lock_release(&qp->lock);
	if (handle == qp)
		return stays;
	rq_fini(&handle->own_rq);
	lock_fini(&handle->lock);
	pthread_mutex_destroy(&handle->ib.mutex);
	pthread_cond_destroy(&handle->ib.cond);
	free(handle);
	return stays;
}

static void purge(struct qp *qp)
{
	if (qp->send_cq)
		cq_purge(qp->send_cq, qp);
	if (qp->recv_cq && qp->type != IBV_QPT_XRC_RECV)
		cq_purge(qp->recv_cq, qp);
}

/* Visits still meet the QP: by them xrc_destroy_srq takes its SRQ away (object/xrcd.c). */
static void stop(struct qp *qp)
{
	lock_acquire(&qp->lock);
	atomic_store_explicit(&qp->entry->word, 0, memory_order_release);
	atomic_store_explicit(&qp->state, IBV_QPS_RESET, memory_order_release);
	qp_fence_source();
	qp->path->quiesce(qp);
	if (qp->type == IBV_QPT_XRC_RECV) {
		qp->srq = NULL;
		qp->rq = &qp->own_rq;
		qp->recv_cq = NULL;
	}
	lock_release(&qp->lock);
}

int qp_destroy(struct qp *handle)
{
	struct qp *qp = handle->real ? handle->real : handle;
	uint32_t attachments = atomic_load(&qp->attachments);

	if (qp->type == IBV_QPT_XRC_RECV && close_handle(handle, qp))
		return 0;
	if (attachments) {
		cause_report(CAUSE_BUSY_QP, qp->ib.qp_num, "%u multicast groups or flows",
			     attachments);
		return -EBUSY;
	}
	qp_table_withdraw(qp);
	/* No thread finds the QP any more. Threads that had found it have released its lock now. */
	stop(qp);
	qp_table_forget(qp);
	lock_acquire(&qp->lock);
	purge(qp);
	qp->path->destroy(qp);
	sq_fini(&qp->sq);
	lock_release(&qp->lock);
	mw_unbind_qp(qp->ib.qp_num);
	settle_events(qp);
	rq_fini(&qp->own_rq);
	count_users(qp, -1);
	pthread_mutex_destroy(&qp->ib.mutex);
	pthread_cond_destroy(&qp->ib.cond);
	qp_table_free(qp);
	return 0;
}

void qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	lock_acquire(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp_state(qp);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !qp->drained;
	*init = qp->init;
	lock_release(&qp->lock);
}
