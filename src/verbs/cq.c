/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: ibv_create_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3). */
#include "object/cq.h"

#include <errno.h>

#include "adapter/progress.h"
#include "base/cause.h"
#include "base/uncancelled.h"
#include "object/context.h"
#include "verbs/cq_ex.h"
#include "verbs/export.h"
#include "verbs/ops.h"
#include "verbs/error.h"

VERBS_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					  struct ibv_comp_channel *channel, int comp_vector)
{
	UNCANCELLED;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct cq *cq;
	int error = cq_create(context_of(context), &attr, &cq);

	if (error) {
		errno = -error;
		return NULL;
	}
	context_enter(context_of(context), &cq->live, cq->ib.handle);
	return &cq->ib;
}

struct ibv_cq_ex *verbs_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	UNCANCELLED;
	struct cq *cq;
	int error = cq_create(context_of(context), attr, &cq);

	if (error) {
		errno = -error;
		return NULL;
	}
	cq_ex_init(cq, attr->wc_flags);
	context_enter(context_of(context), &cq->live, cq->ib.handle);
	return &cq->ex;
}

VERBS_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	UNCANCELLED;

	if (!live_object_exists(&cq_of(cq)->live, &cq->handle))
		return error_unknown_object("ibv_resize_cq");
	return -cq_resize(cq_of(cq), cqe);
}

VERBS_EXPORT int ibv_destroy_cq(struct ibv_cq *ib)
{
	UNCANCELLED;
	struct cq *cq = cq_of(ib);
	struct context *context;
	uint32_t handle;

	if (!live_object_remove(&cq->live, &ib->handle))
		return error_unknown_object("ibv_destroy_cq");
	context = context_of(ib->context);
	handle = ib->handle;
	return context_leave(context, &cq->live, handle, -cq_destroy(cq));
}

int verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int count;

	if (num_entries < 0)
		return -EINVAL;
	count = cq_pop(cq_of(cq), num_entries, wc);
	if (count || num_entries == 0) {
		adapter_on_completions();
		return count;
	}
	adapter_progress();
	count = cq_pop(cq_of(cq), num_entries, wc);
	if (!count && adapter_on_empty())
		count = cq_pop(cq_of(cq), num_entries, wc);
	return count;
}

int verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	cq_arm(cq_of(cq), solicited_only);
	adapter_on_arm();
	return 0;
}

/* Moderation permits an adapter to delay events. Verbatim never delays one. */
int verbs_modify_cq(struct ibv_cq *ib, struct ibv_modify_cq_attr *attr)
{
	UNCANCELLED;
	struct cq *cq = cq_of(ib);

	if (!live_object_exists(&cq->live, &ib->handle))
		return error_unknown_object("ibv_modify_cq");
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE) {
		cause_report(CAUSE_FLAGS_UNKNOWN, 0, "CQ: attr_mask 0x%x", attr->attr_mask);
		return EINVAL;
	}
	if (!(attr->attr_mask & IBV_CQ_ATTR_MODERATE))
		return 0;
	lock_acquire(&cq->lock);
	cq->moderate_count = attr->moderate.cq_count;
	cq->moderate_period_us = attr->moderate.cq_period;
	lock_release(&cq->lock);
	return 0;
}
