/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/qp.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <string.h>

#include "cm/export.h"
#include "cm/qp_attr.h"

/*
 * ------------------------------------------------------------------------------------------
 * Its moves.
 */

static int move(struct id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, rc = qp_attr_init(id, &attr, &mask);

	return rc ? rc : -ibv_modify_qp(qp, &attr, mask);
}

int qp_to_rtr(struct id *id)
{
	int rc;

	if (!id->base.qp)
		return -EINVAL;
	/* Once more: now the peer's access rights are known. */
	rc = move(id, id->base.qp, IBV_QPS_INIT);
	return rc ? rc : move(id, id->base.qp, IBV_QPS_RTR);
}

int qp_to_rts(struct id *id)
{
	return id->base.qp ? move(id, id->base.qp, IBV_QPS_RTS) : -EINVAL;
}

int qp_fail(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->base.qp ? -ibv_modify_qp(id->base.qp, &attr, IBV_QP_STATE) : 0;
}

/* A UD QP is ready at once. */
static int move_new(struct id *id, struct ibv_qp *qp)
{
	int rc = move(id, qp, IBV_QPS_INIT);

	if (rc || id->base.qp_type != IBV_QPT_UD)
		return rc;
	rc = move(id, qp, IBV_QPS_RTR);
	return rc ? rc : move(id, qp, IBV_QPS_RTS);
}

/*
 * ------------------------------------------------------------------------------------------
 * Its queues.
 */

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

/* Destroys the CQs that were made here, but not an SRQ's own CQ. */
static void destroy_cqs(struct rdma_cm_id *base)
{
	if (base->qp_type == IBV_QPT_XRC_RECV && base->srq)
		return;
	destroy_cq(&base->recv_cq, &base->recv_cq_channel);
	destroy_cq(&base->send_cq, &base->send_cq_channel);
}

static int create_cq(struct rdma_cm_id *base, uint32_t depth, struct ibv_cq **cq,
		     struct ibv_comp_channel **channel)
{
	if (!depth || *cq)
		return 0;
	*channel = ibv_create_comp_channel(base->verbs);
	if (!*channel)
		return -errno;
	*cq = ibv_create_cq(base->verbs, (int)depth, base, *channel, 0);
	return *cq ? 0 : -errno;
}

static int create_cqs(struct rdma_cm_id *base, uint32_t send_depth, uint32_t recv_depth)
{
	int rc = create_cq(base, recv_depth, &base->recv_cq, &base->recv_cq_channel);

	if (!rc)
		rc = create_cq(base, send_depth, &base->send_cq, &base->send_cq_channel);
	if (rc)
		destroy_cqs(base);
	return rc;
}

/*
 * ------------------------------------------------------------------------------------------
 * Shared receive queues.
 */

static int create_srq(struct id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct rdma_cm_id *base = &id->base;
	bool is_xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
	struct ibv_srq *srq;
	int rc;

	if (!base->verbs || !id->device)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = base->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (is_xrc) {
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
			attr->xrcd = device_xrcd(id->device);
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
			if (!attr->xrcd)
				return -errno;
		}
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
			rc = create_cqs(base, 0, attr->attr.max_wr);
			if (rc)
				return rc;
			attr->cq = base->recv_cq;
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
		}
	}
	srq = ibv_create_srq_ex(base->verbs, attr);
	if (!srq) {
		rc = -errno;
		if (is_xrc)
			destroy_cqs(base);
		return rc;
	}
	if (!base->pd)
		base->pd = attr->pd;
	base->srq = srq;
	return 0;
}

CM_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return answer(create_srq(id_of(id), attr));
}

CM_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			      struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
	};
	int rc;

	if (pd) {
		ex.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		ex.pd = pd;
	}
	rc = create_srq(id_of(id), &ex);
	attr->attr = ex.attr;
	return answer(rc);
}

CM_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_cqs(id);
}

/*
 * ------------------------------------------------------------------------------------------
 * The QP.
 */

static int check(const struct rdma_cm_id *base, const struct ibv_qp_init_attr_ex *attr)
{
	if (!base->verbs || base->qp)
		return -EINVAL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD && attr->pd && attr->pd->context != base->verbs)
		return -EINVAL;
	if ((base->recv_cq && attr->recv_cq && base->recv_cq != attr->recv_cq) ||
	    (base->send_cq && attr->send_cq && base->send_cq != attr->send_cq))
		return -EINVAL;
	return 0;
}

static int create_qp(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_cq *send_cq = attr->send_cq, *recv_cq = attr->recv_cq;
	struct rdma_cm_id *base = &id->base;
	struct ibv_qp *qp;
	int rc = check(base, attr);

	if (rc)
		return rc;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = base->pd;
	}
	if (base->qp_type == IBV_QPT_XRC_RECV && !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		attr->xrcd = device_xrcd(id->device);
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		if (!attr->xrcd)
			return -errno;
	}
	rc = create_cqs(base, attr->send_cq ? 0 : attr->cap.max_send_wr,
			attr->recv_cq ? 0 : attr->cap.max_recv_wr);
	if (rc)
		return rc;
	if (!attr->send_cq)
		attr->send_cq = base->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = base->recv_cq;
	if (base->srq && !attr->srq)
		attr->srq = base->srq;
	qp = ibv_create_qp_ex(base->verbs, attr);
	rc = qp ? move_new(id, qp) : -errno;
	if (rc) {
		if (qp)
			ibv_destroy_qp(qp);
		destroy_cqs(base);
		/* The program may try again, with less. */
		attr->send_cq = send_cq;
		attr->recv_cq = recv_cq;
		return rc;
	}
	/* An XRC_RECV QP has none. */
	if (qp->pd)
		base->pd = qp->pd;
	base->qp = qp;
	return 0;
}

CM_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return answer(create_qp(id_of(id), attr));
}

CM_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *attr)
{
	const size_t common = offsetof(struct ibv_qp_init_attr_ex, comp_mask);
	struct ibv_qp_init_attr_ex ex = { 0 };
	int rc;

	/* The padding of the one struct is the comp_mask of the other. */
	memcpy(&ex, attr, common);
	if (pd) {
		ex.comp_mask = IBV_QP_INIT_ATTR_PD;
		ex.pd = pd;
	}
	rc = create_qp(id_of(id), &ex);
	memcpy(attr, &ex, common);
	return answer(rc);
}

CM_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}
