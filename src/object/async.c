/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq.h"
#include "object/context.h"
#include "object/qp.h"
#include "object/srq.h"

#include <stdlib.h>

enum async_subject async_subject(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ASYNC_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ASYNC_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ASYNC_SRQ;
	default:
		return ASYNC_PORT;
	}
}

/* The counter of fetched events in the object that an event names; NULL: it names a port. */
static uint32_t *reported_of(const struct ibv_async_event *event)
{
	switch (async_subject(event->event_type)) {
	case ASYNC_CQ:
		return &cq_of(event->element.cq)->async_reported;
	case ASYNC_QP:
		return &qp_of(event->element.qp)->async_reported;
	case ASYNC_SRQ:
		return &srq_of(event->element.srq)->async_reported;
	default:
		return NULL;
	}
}

bool context_take_event(struct context *context, struct ibv_async_event *event)
{
	struct async_event *oldest;
	uint32_t *reported;

	lock_acquire(&context->async_lock);
	if (context->async_withdrawn > 0) {
		context->async_withdrawn--;
		lock_release(&context->async_lock);
		return false;
	}
	if (list_empty(&context->async_pending)) {
		lock_release(&context->async_lock);
		return false;
	}
	oldest = list_entry(context->async_pending.next, struct async_event, link);
	list_del(&oldest->link);
	*event = oldest->event;
	/*
	 * Under the lock: a thread that destroys the object finds the event in the list or in this
	 * count.
	 */
	reported = reported_of(event);
	if (reported)
		(*reported)++;
	lock_release(&context->async_lock);
	free(oldest);
	return true;
}
