/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "object/acknowledge.h"
#include "object/context.h"
#include "object/limits.h"

static _Atomic uint32_t srqs;	 /* SRQs of this process */
static _Atomic uint32_t numbers; /* the last number */

static int check_attr(const struct ibv_srq_attr *attr)
{
	if (attr->max_wr >= 1 && attr->max_wr <= LIMIT_SRQ_WR && attr->max_sge <= LIMIT_SRQ_SGE)
		return 0;
	cause_report(CAUSE_LIMIT_EXCEEDED, 0, "SRQ: max_wr %u (1 to %u), max_sge %u (at most %u)",
		     attr->max_wr, LIMIT_SRQ_WR, attr->max_sge, LIMIT_SRQ_SGE);
	return -EINVAL;
}

static void reset_after_fork(struct live_object *node)
{
	struct srq *srq = container_of(node, struct srq, live);

	lock_init(&srq->rq.lock);
	acknowledge_reset_after_fork(&srq->ib.mutex, &srq->ib.cond);
	srq->ib.events_completed = srq->async_reported = 0;
}

int srq_create(struct context *context, struct pd *pd, void *srq_context, struct ibv_srq_attr *attr,
	       struct srq **srq)
{
	uint32_t max_sge = attr->max_sge ? attr->max_sge : 1;
	struct srq *new;
	int error = check_attr(attr);

	if (error)
		return error;
	if (atomic_fetch_add(&srqs, 1) >= LIMIT_SRQ) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "%u SRQs", LIMIT_SRQ);
		goto uncount;
	}
	new = calloc(1, sizeof(*new));
	if (!new || rq_init(&new->rq, attr->max_wr, max_sge)) {
		free(new);
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "SRQ of %u receives", attr->max_wr);
		goto uncount;
	}
	new->ib.context = &context->verbs.context;
	new->ib.srq_context = srq_context;
	new->ib.pd = &pd->ib;
	new->number = atomic_fetch_add(&numbers, 1) + 1;
	new->ib.handle = new->number;
	pthread_mutex_init(&new->ib.mutex, NULL);
	pthread_cond_init(&new->ib.cond, NULL);
	new->pd = pd;
	new->type = IBV_SRQT_BASIC;
	new->live.after_fork = reset_after_fork;
	pd_get(pd);
	attr->max_sge = max_sge;
	*srq = new;
	return 0;

uncount:
	atomic_fetch_sub(&srqs, 1);
	return -ENOMEM;
}

int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct rq *rq = &srq->rq;
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : rq->max_wr;
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq_limit(srq);
	int error = 0;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) {
		cause_report(CAUSE_FLAGS_UNKNOWN, 0, "SRQ: srq_attr_mask 0x%x", mask);
		return -EINVAL;
	}
	if (max_wr < 1 || max_wr > LIMIT_SRQ_WR || limit > max_wr) {
		cause_report(CAUSE_LIMIT_EXCEEDED, 0, "SRQ: max_wr %u (1 to %u), srq_limit %u",
			     max_wr, LIMIT_SRQ_WR, limit);
		return -EINVAL;
	}
	if (mask & IBV_SRQ_MAX_WR)
		error = rq_resize(rq, max_wr);
	if (error) {
		cause_report(error == -EINVAL ? CAUSE_QUEUE_SMALLER_THAN_FULL
					      : CAUSE_MEMORY_EXHAUSTED,
			     0, "SRQ: max_wr %u", max_wr);
		return error;
	}
	if (mask & IBV_SRQ_LIMIT) {
		lock_acquire(&rq->lock);
		atomic_store_explicit(&rq->limit, attr->srq_limit, memory_order_relaxed);
		lock_release(&rq->lock);
	}
	return 0;
}

void srq_query(struct srq *srq, struct ibv_srq_attr *attr)
{
	lock_acquire(&srq->rq.lock);
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq_limit(srq);
	lock_release(&srq->rq.lock);
}

bool srq_take(struct srq *srq, struct receive *out)
{
	struct ibv_async_event event = { .element.srq = &srq->ib,
					 .event_type = IBV_EVENT_SRQ_LIMIT_REACHED };
	enum rq_taken taken = rq_take(&srq->rq, out);

	if (taken == RQ_TAKEN_BELOW_LIMIT)
		context_raise(context_of(srq->ib.context), &event, &srq->async_reported);
	return taken != RQ_EMPTY;
}

int srq_destroy(struct srq *srq)
{
	struct context *context = context_of(srq->ib.context);
	uint32_t users = atomic_load(&srq->users), reported;

	if (users) {
		cause_report(CAUSE_BUSY_SRQ, 0, "%u QPs", users);
		return -EBUSY;
	}
	/* No QP uses the SRQ, so no thread takes receives or raises events. */
	reported = context_drop_events(context, &srq->ib, &srq->async_reported);
	acknowledge_wait(&srq->ib.mutex, &srq->ib.cond, &srq->ib.events_completed, reported);
	rq_fini(&srq->rq);
	pthread_mutex_destroy(&srq->ib.mutex);
	pthread_cond_destroy(&srq->ib.cond);
	pd_put(srq->pd);
	free(srq);
	atomic_fetch_sub(&srqs, 1);
	return 0;
}
