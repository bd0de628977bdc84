/* SPDX-License-Identifier: BSD-2-Clause */
/* Creates identifiers, moves them to another channel, and destroys them. */
#include <errno.h>

#include "cm/export.h"
#include "cm/id.h"
#include "cm/membership.h"
#include "cm/sync.h"

CM_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			     void *context, enum rdma_port_space ps)
{
	bool is_ud = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
	struct id *made;
	int rc = id_create(channel, context, ps, is_ud ? IBV_QPT_UD : IBV_QPT_RC, &made);

	if (!rc)
		*id = &made->base;
	return answer(rc);
}

CM_EXPORT int rdma_destroy_id(struct rdma_cm_id *base)
{
	struct id *id = id_of(base);

	sync_drop_event(id);
	id_end(id);
	membership_leave_all(id);
	id_free(id);
	return answer(0);
}

CM_EXPORT int rdma_migrate_id(struct rdma_cm_id *base, struct rdma_event_channel *channel)
{
	struct id *id = id_of(base);

	/* It is synchronous already. */
	if (!channel && id->is_sync)
		return answer(refusal(-EINVAL, CAUSE_CM_STATE, "it is synchronous already"));
	if (id->is_sync)
		sync_drop_event(id);
	return answer(id_migrate(id, channel));
}
