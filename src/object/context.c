#include "object/context.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cause.h"

void context_raise(struct context *context, const struct ibv_async_event *event)
{
	struct async_event *pending = malloc(sizeof(*pending));
	int saved = errno;

	if (!pending) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "asynchronous event %d is lost",
			     event->event_type);
		return;
	}
	pending->event = *event;
	lock_acquire(&context->async_lock);
	list_add_tail(&context->async_pending, &pending->link);
	eventfd_write(context->verbs.context.async_fd, 1);
	lock_release(&context->async_lock);
	errno = saved;
}

/* Counts an event out of async_fd. Does not wait if somebody read it in the meantime. */
static void uncount(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	uint64_t one;
	struct iovec into = {.iov_base = &one, .iov_len = sizeof(one)};

	if (preadv2(fd, &into, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN)
		return;
	/* Before Linux 5.8: another reader may come between the two, and we wait for an event. */
	if (poll(&readable, 1, 0) == 1 && read(fd, &one, sizeof(one)) < 0)
		return;
}

uint32_t context_drop_events(struct context *context, const void *object)
{
	struct list *pos, *after;
	uint32_t dropped = 0;
	int saved = errno;

	lock_acquire(&context->async_lock);
	list_for_each_safe(pos, after, &context->async_pending) {
		struct async_event *pending = list_entry(pos, struct async_event, link);

		if (pending->event.element.cq != object)
			continue;
		list_del(pos);
		free(pending);
		uncount(context->verbs.context.async_fd);
		dropped++;
	}
	lock_release(&context->async_lock);
	errno = saved;
	return dropped;
}
