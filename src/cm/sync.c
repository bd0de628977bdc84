/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/sync.h"

#include <errno.h>
#include <stdlib.h>

#include "cm/export.h"

void sync_drop_event(struct id *id)
{
	if (id->base.event)
		rdma_ack_cm_event(id->base.event);
	id->base.event = NULL;
}

int sync_next_answer(struct id *id, struct rdma_cm_event **out)
{
	int rc = rdma_get_cm_event(id->base.channel, out);

	while (!rc && (*out)->event == RDMA_CM_EVENT_ADDR_CHANGE) {
		rdma_ack_cm_event(*out);
		rc = rdma_get_cm_event(id->base.channel, out);
	}
	return rc;
}

int sync_complete(struct id *id)
{
	struct rdma_cm_event *event;

	if (!id)
		return 0;
	sync_drop_event(id);
	if (sync_next_answer(id, &event))
		return -1;
	id->base.event = event;
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return answer_told(-ENODEV);
	if (!id->base.event->status)
		return 0;
	if (id->base.event->event == RDMA_CM_EVENT_REJECTED)
		return answer_told(-ECONNREFUSED);
	return answer_told(-abs(id->base.event->status));
}
