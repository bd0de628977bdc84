/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>

#include "adapter/adapter.h"
#include "base/gid.h"
#include "base/uncancelled.h"
#include "object/qp.h"
#include "verbs/export.h"
#include "verbs/error.h"

static int check(struct ibv_qp *qp, const union ibv_gid *gid)
{
	if (context_of(qp->context)->iwarp)
		return error_report(EOPNOTSUPP, CAUSE_UNSUPPORTED, "iWARP has no multicast");
	if (qp->qp_type != IBV_QPT_UD)
		return error_report(EINVAL, CAUSE_WRONG_TYPE,
				    "multicast is for UD, QP 0x%06x is of type %d", qp->qp_num,
				    qp->qp_type);
	if (!gid_is_multicast(gid->raw))
		return error_report(EINVAL, CAUSE_MULTICAST_GID, "it begins with 0x%02x",
				    gid->raw[0]);
	if (adapter_is_foreign(qp_of(qp)->context))
		return error_report(EINVAL, CAUSE_OTHER_PROCESS, "QP 0x%06x", qp->qp_num);
	return 0;
}

VERBS_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	UNCANCELLED;
	int error = check(qp, gid);

	return error ? error : adapter_mcast_attach(qp_of(qp), gid);
}

VERBS_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	UNCANCELLED;
	int error = check(qp, gid);

	return error ? error : adapter_mcast_detach(qp_of(qp), gid);
}
