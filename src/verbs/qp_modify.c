/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp(3): checks what depends on the device; object/qp_modify.c does the rest. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "adapter/adapter.h"
#include "adapter/progress.h"
#include "netdev/device.h"
#include "base/cause.h"
#include "base/gid.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "object/qp.h"
#include "verbs/export.h"
#include "verbs/link.h"
#include "verbs/query.h"
#include "verbs/error.h"

/* On Ethernet an address vector needs a GID, as there are no LIDs (IBA annex A16). */
static int check_av(struct qp *qp, const struct ibv_ah_attr *attr)
{
	union ibv_gid own;

	if (!attr->is_global || gid_is_zero(attr->grh.dgid.raw)) {
		cause_report(CAUSE_AH_INVALID, qp->ib.qp_num,
			     "ibv_modify_qp: is_global %d, dgid %s", attr->is_global,
			     gid_is_zero(attr->grh.dgid.raw) ? "is zero" : "is set");
		return EINVAL;
	}
	if (!device_gid(qp->context->device, attr->grh.sgid_index, &own)) {
		char why[128];

		device_explain_gid(qp->context->device, attr->grh.sgid_index, why, sizeof(why));
		cause_report(CAUSE_GID_UNKNOWN, qp->ib.qp_num, "ibv_modify_qp: %s", why);
		return EINVAL;
	}
	return 0;
}

/*
 * A packet of the path MTU has to fit into the interface's MTU. Between processes of a host any
 * does.
 */
static int check_mtu(struct qp *qp, const struct ibv_qp_attr *attr)
{
	struct device *device = qp->context->device;
	enum ibv_mtu active;
	int is_local = qp->type == IBV_QPT_UD ? 1 : adapter_stays_local(&attr->ah_attr.grh.dgid);

	if (is_local)
		return is_local < 0 ? -is_local : 0;
	lock_acquire(&device->lock);
	active = query_active_mtu(device->mtu);
	lock_release(&device->lock);
	if (attr->path_mtu <= active)
		return 0;
	cause_report(CAUSE_PATH_TOO_NARROW, qp->ib.qp_num, "path_mtu %u, active_mtu of %s is %u",
		     128u << attr->path_mtu, device->ib.name, 128u << active);
	return EINVAL;
}

VERBS_EXPORT int ibv_modify_qp(struct ibv_qp *ib, struct ibv_qp_attr *attr, int attr_mask)
{
	UNCANCELLED;
	struct ibv_ah_attr asked = { 0 };
	struct ibv_qp_attr resolved;
	struct qp *qp;
	int error = 0;

	if (!live_object_exists(&qp_of(ib)->live, &ib->handle))
		return error_unknown_object("ibv_modify_qp");
	qp = qp_real(ib);
	if (adapter_is_foreign(qp->context))
		return error_report(EIO, CAUSE_OTHER_PROCESS, "QP 0x%06x", ib->qp_num);
	if (qp->context->infiniband && attr_mask & IBV_QP_AV) {
		asked = attr->ah_attr;
		resolved = *attr;
		if (!link_resolve(qp->context, &asked, &resolved.ah_attr)) {
			cause_report(CAUSE_AH_INVALID, qp->ib.qp_num, "ibv_modify_qp: dlid %u",
				     asked.dlid);
			return EINVAL;
		}
		attr = &resolved;
	}
	if (attr_mask & IBV_QP_AV)
		error = check_av(qp, &attr->ah_attr);
	if (!error && attr_mask & IBV_QP_AV && attr_mask & IBV_QP_PATH_MTU)
		error = check_mtu(qp, attr);
	if (!error && attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR &&
	    qp_state(qp) == IBV_QPS_INIT)
		adapter_prepare(qp, attr, attr_mask);
	if (!error && attr_mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		adapter_catch_up(qp);
	if (!error)
		error = qp_modify(qp, attr, attr_mask);
	if (!error && attr_mask & IBV_QP_AV)
		qp->asked_av = asked;
	if (!error && attr_mask & IBV_QP_STATE)
		ib->state = attr->qp_state;
	return error;
}
