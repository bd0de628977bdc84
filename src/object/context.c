/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/context.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cause.h"
#include "base/eventfd.h"

void context_raise(struct context *context, const struct ibv_async_event *event, uint32_t *reported)
{
	struct async_event *pending = malloc(sizeof(*pending));
	int saved = errno;

	if (!pending) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "asynchronous event %d is lost",
			     event->event_type);
		return;
	}
	pending->event = *event;
	pending->reported = reported;
	lock_acquire(&context->async_lock);
	list_add_tail(&context->async_pending, &pending->link);
	eventfd_add(context->verbs.context.async_fd);
	lock_release(&context->async_lock);
	errno = saved;
}

uint32_t context_drop_events(struct context *context, const void *object, const uint32_t *reported)
{
	struct list *pos, *after;
	uint32_t dropped = 0, fetched;
	int saved = errno;

	lock_acquire(&context->async_lock);
	list_for_each_safe(pos, after, &context->async_pending) {
		struct async_event *pending = list_entry(pos, struct async_event, link);

		if (pending->event.element.cq != object)
			continue;
		list_del(pos);
		free(pending);
		dropped++;
	}
	context->async_withdrawn +=
		dropped - eventfd_withdraw(context->verbs.context.async_fd, dropped);
	fetched = *reported;
	lock_release(&context->async_lock);
	errno = saved;
	return fetched;
}

void context_reset_after_fork(struct context *context)
{
	lock_init(&context->async_lock);
	list_init(&context->async_pending);
	context->async_withdrawn = 0;
	eventfd_renew(&context->verbs.context.async_fd);
}

static struct async_event *take_oldest(struct context *context) REQUIRES(context->async_lock)
{
	struct async_event *oldest;

	if (context->async_withdrawn > 0) {
		context->async_withdrawn--;
		return NULL;
	}
	if (list_empty(&context->async_pending))
		return NULL;
	oldest = list_entry(context->async_pending.next, struct async_event, link);
	list_del(&oldest->link);
	/*
	 * Under the lock: the destroyer of the object finds the event in the list or in this count.
	 */
	if (oldest->reported)
		(*oldest->reported)++;
	return oldest;
}

bool context_take_event(struct context *context, struct ibv_async_event *event)
{
	struct async_event *oldest;

	lock_acquire(&context->async_lock);
	oldest = take_oldest(context);
	lock_release(&context->async_lock);
	if (!oldest)
		return false;
	*event = oldest->event;
	free(oldest);
	return true;
}
