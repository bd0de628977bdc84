/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels and events: ibv_create_comp_channel(3), ibv_get_cq_event(3),
 * ibv_get_async_event(3).
 */
#include <errno.h>
#include <infiniband/verbs.h>

#include "adapter/progress.h"
#include "base/eventfd.h"
#include "base/uncancelled.h"
#include "object/acknowledge.h"
#include "object/channel.h"
#include "object/context.h"
#include "object/cq.h"
#include "verbs/export.h"
#include "verbs/error.h"

VERBS_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	UNCANCELLED;
	struct channel *channel;
	int error = channel_create(context, &channel);

	if (error) {
		errno = -error;
		return NULL;
	}
	live_object_add(&channel->live, 0);
	return &channel->ib;
}

VERBS_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	UNCANCELLED;
	int error;

	if (!live_object_remove(&channel_of(channel)->live, NULL))
		return error_unknown_object("ibv_destroy_comp_channel");
	error = -channel_destroy(channel_of(channel));
	if (error)
		live_object_add(&channel_of(channel)->live, 0);
	return error;
}

VERBS_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				  void **cq_context)
{
	struct cq *taken;

	if (adapter_sleep(channel_of(channel), &taken) ||
	    (!taken && channel_take(channel_of(channel), &taken)))
		return -1;
	*cq = &taken->ib;
	*cq_context = taken->ib.cq_context;
	return 0;
}

VERBS_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	if (nevents)
		acknowledge(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}

VERBS_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	do {
		if (eventfd_take(context->async_fd) < 0)
			return -1;
	} while (!context_take_event(context_of(context), event));
	return 0;
}

VERBS_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *cq = event->element.cq;

		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		break;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *qp = event->element.qp;

		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed, 1);
		break;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *srq = event->element.srq;

		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		break;
	}
	default:
		break;
	}
}
