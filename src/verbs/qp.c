/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: ibv_create_qp(3), ibv_query_qp(3), ibv_destroy_qp(3). */
#include "object/qp.h"
#include "object/qp_create.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "adapter/adapter.h"
#include "adapter/raw_sockets.h"
#include "adapter/progress.h"
#include "base/identity.h"
#include "netdev/device.h"
#include "base/cause.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/xrcd.h"
#include "verbs/export.h"
#include "verbs/qp_ex.h"
#include "verbs/ops.h"
#include "verbs/error.h"

#define COMP_MASK_OFFERED                                                                          \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |             \
	 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
/*
 * Bytes of GRH, UDP, BTH, the longest extended headers and the ICRC, as Linux counts them
 * (rdma/ib_pack.h).
 */
#define ROCE_HEADERS 96

/* The longest datagram of a UD QP: the port's active_mtu. */
static enum ibv_mtu datagram_mtu(struct device *device)
{
	enum ibv_mtu mtu = IBV_MTU_4096;
	uint32_t bytes;

	lock_acquire(&device->lock);
	bytes = device->mtu;
	lock_release(&device->lock);
	while (mtu > IBV_MTU_256 && (128u << mtu) + ROCE_HEADERS > bytes)
		mtu--;
	return mtu;
}

static int check_ex(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->comp_mask & ~(uint32_t)COMP_MASK_OFFERED) {
		cause_report(CAUSE_UNSUPPORTED, 0, "QP: comp_mask 0x%x", attr->comp_mask);
		return EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) {
		cause_report(CAUSE_UNSUPPORTED, 0, "QP: create_flags 0x%x", attr->create_flags);
		return EOPNOTSUPP;
	}
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		if (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD && attr->xrcd)
			return 0;
		return error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "XRC_RECV QP: no XRC domain");
	}
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context) {
		cause_report(CAUSE_ARGUMENT_INVALID, 0, "QP: no PD of this context");
		return EINVAL;
	}
	return 0;
}

static int create(struct ibv_context *ib, struct ibv_qp_init_attr_ex *attr, struct qp **qp)
{
	struct context *context = context_of(ib);
	const struct qp_path *path;
	int error = check_ex(ib, attr);

	if (error)
		return error;
	if (adapter_is_foreign(context)) {
		cause_report(CAUSE_OTHER_PROCESS, 0, "QP");
		return EINVAL;
	}
	path = adapter_path(context, attr->qp_type);
	if (attr->qp_type == IBV_QPT_RAW_PACKET && context->infiniband)
		path = NULL; /* in the link mode with LIDs paths have no Ethernet address */
	if (!path) {
		cause_report(CAUSE_UNSUPPORTED, 0, "QP type %d", attr->qp_type);
		return EOPNOTSUPP;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		error = qp_ex_check(context->iwarp ? OPCODE_QPT_RNIC : attr->qp_type,
				    attr->send_ops_flags);
		if (error)
			return error;
	}
	error = -qp_create(context, attr->qp_type == IBV_QPT_XRC_RECV ? NULL : pd_of(attr->pd),
			   attr, path, qp);
	if (error)
		return error;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		qp_ex_init(*qp, attr->send_ops_flags);
	if (attr->qp_type == IBV_QPT_RAW_PACKET) {
		error = raw_sockets_open(*qp);
		if (error) {
			qp_destroy(*qp);
			return error;
		}
	}
	if (attr->qp_type == IBV_QPT_UD) {
		lock_acquire(&(*qp)->lock);
		(*qp)->attr.path_mtu = datagram_mtu(context->device);
		lock_release(&(*qp)->lock);
	}
	return 0;
}

struct ibv_qp *verbs_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	UNCANCELLED;
	struct qp *qp;
	int error = create(context, attr, &qp);

	if (error) {
		errno = error;
		return NULL;
	}
	live_object_add(&qp->live, qp->ib.handle);
	return &qp->ib;
}

VERBS_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	UNCANCELLED;
	struct ibv_qp_init_attr_ex attr = { 0 };
	struct ibv_qp *qp;

	/* struct ibv_qp_init_attr_ex begins with the fields of struct ibv_qp_init_attr */
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	qp = verbs_create_qp_ex(pd->context, &attr);
	if (qp)
		qp_init_attr->cap = attr.cap;
	return qp;
}

VERBS_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp_of(qp)->has_ex ? &qp_of(qp)->ex : NULL;
}

#define OPEN_REQUIRED (IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE)

struct ibv_qp *verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	UNCANCELLED;
	struct qp *handle;

	if (attr->comp_mask & ~(uint32_t)(OPEN_REQUIRED | IBV_QP_OPEN_ATTR_CONTEXT) ||
	    (attr->comp_mask & OPEN_REQUIRED) != OPEN_REQUIRED) {
		error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ibv_open_qp: comp_mask 0x%x",
			     attr->comp_mask);
		return NULL;
	}
	if (attr->qp_type != IBV_QPT_XRC_RECV || attr->xrcd->context != context) {
		error_report(EINVAL, CAUSE_ARGUMENT_INVALID, "ibv_open_qp: QP type %d",
			     attr->qp_type);
		return NULL;
	}
	if (error_from(qp_open(context_of(context), xrcd_of(attr->xrcd), attr->qp_num,
			       attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
			       &handle)) != 0)
		return NULL;
	live_object_add(&handle->live, handle->ib.handle);
	return &handle->ib;
}

VERBS_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			      struct ibv_qp_init_attr *init_attr)
{
	UNCANCELLED;

	if (!live_object_exists(&qp_of(qp)->live, &qp->handle))
		return error_unknown_object("ibv_query_qp");
	qp_query(qp_real(qp), attr, init_attr);
	init_attr->qp_context = qp->qp_context; /* a handle of ibv_open_qp has its own */
	if (context_of(qp->context)->infiniband)
		attr->ah_attr = qp_real(qp)->asked_av;
	qp->state = attr->qp_state;
	return 0;
}

#define LEAVE_NS 1100000000ull
#define LOOK_NS	 100000ull

/*
 * Waits until the posted datagrams are sent. Programs such as mckey post them unsignaled and
 * destroy the QP; an adapter has sent them by then. Here a datagram may wait for verbatimd to
 * resolve its destination, a second at most (shm/backoff.h).
 */
static void wait_for_datagrams(struct qp *qp)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	bool waits = qp->type == IBV_QPT_UD;

	for (uint64_t ns = 0; waits && ns < LEAVE_NS; ns += LOOK_NS) {
		lock_acquire(&qp->lock);
		waits = qp_state(qp) == IBV_QPS_RTS && qp->sq.issue != qp->sq.tail;
		lock_release(&qp->lock);
		if (waits)
			nanosleep(&pause, NULL);
	}
}

static void close_to_datagrams(struct qp *qp, bool closed)
{
	lock_acquire(&qp->lock);
	qp->closed = closed;
	lock_release(&qp->lock);
}

VERBS_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&qp_of(qp)->live, &qp->handle))
		return error_unknown_object("ibv_destroy_qp");
	/*
	 * Datagrams that come now have nobody who hears of them, and UCX has unmapped the memory of
	 * its receives, though an adapter could still store there.
	 */
	close_to_datagrams(qp_of(qp), true);
	/*
	 * First acknowledges what the program has seen completed, in case another thread is about
	 * to do so. Otherwise the peer may hear of the end in another way (a DREQ) before the
	 * acknowledgement.
	 */
	adapter_catch_up(qp_of(qp));
	wait_for_datagrams(qp_of(qp));
	error = -qp_destroy(qp_of(qp));
	if (error) {
		close_to_datagrams(qp_of(qp), false);
		live_object_add(&qp_of(qp)->live, qp->handle);
	}
	return error;
}

/* 0: the last byte of a message is stored last, but memcpy stores the others in any order. */
VERBS_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
					    uint32_t flags)
{
	return 0;
}

/*
 * Enhanced connection establishment: options of a vendor that two adapters agree on beside the
 * IBA's attributes. Verbatim has none, so the common set is empty. Another vendor's options get
 * EOPNOTSUPP, which connection managers take for "without".
 */
VERBS_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (ece->comp_mask)
		return error_report(EINVAL, CAUSE_FLAGS_UNKNOWN, "ECE: comp_mask 0x%x",
				    ece->comp_mask);
	if (ece->vendor_id != IDENTITY_VENDOR_ID)
		return error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED, "ECE of vendor 0x%06x",
				    ece->vendor_id);
	ece->options = 0;
	return 0;
}

VERBS_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	*ece = (struct ibv_ece){ .vendor_id = IDENTITY_VENDOR_ID };
	return 0;
}

int verbs_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	cause_report(CAUSE_UNSUPPORTED, qp->qp_num, "rate limits");
	return EOPNOTSUPP;
}
