/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joining and leaving multicast groups.
 */
#include <errno.h>

#include "cm/address.h"
#include "cm/export.h"
#include "cm/id.h"
#include "cm/membership.h"
#include "cm/sync.h"

static bool may_join(const struct id *id)
{
	return id->device && id->base.qp_type == IBV_QPT_UD &&
	       (id->state == ID_BOUND || id->state == ID_ADDR_RESOLVED);
}

static int join(struct id *id, const struct sockaddr *sa, bool attaches, void *context)
{
	struct ctl_cm_address address;
	uint64_t cookie;
	int rc = may_join(id) ? address_from_sockaddr(sa, &address) : id_refuse_state(id);

	if (!rc && !address_is_multicast(&address))
		rc = refusal(-EINVAL, CAUSE_MULTICAST_GID, "it is to be joined");
	if (!rc)
		rc = membership_add(id, &address, attaches, context, &cookie);
	if (rc)
		return rc;
	rc = id_raise_event(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, cookie);
	if (rc)
		membership_drop(id, cookie);
	return rc;
}

CM_EXPORT int rdma_join_multicast(struct rdma_cm_id *base, struct sockaddr *addr, void *context)
{
	struct id *waiting = sync_begin(id_of(base));
	int rc = join(id_of(base), addr, true, context);

	return rc ? answer(rc) : sync_complete(waiting);
}

CM_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *base, struct rdma_cm_join_mc_attr_ex *attr,
				     void *context)
{
	unsigned known = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct id *waiting = sync_begin(id_of(base));
	int rc;

	if (attr->comp_mask & ~known)
		return answer(-ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) || !attr->addr)
		return answer(-EINVAL);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return answer(-EINVAL);
	rc = join(id_of(base), attr->addr,
		  attr->join_flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
	return rc ? answer(rc) : sync_complete(waiting);
}

CM_EXPORT int rdma_leave_multicast(struct rdma_cm_id *base, struct sockaddr *addr)
{
	struct ctl_cm_address address;
	int rc = address_from_sockaddr(addr, &address);

	return answer(rc ? rc : membership_leave(id_of(base), &address));
}
