/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream_progress.h"

#include <errno.h>

#include "base/clock.h"
#include "rsocket/config.h"
#include "rsocket/connect.h"
#include "rsocket/message.h"
#include "rsocket/wait.h"

#define LOOKS_EVENT 256 /* every 256th poll in vain looks for CM events, too, while connected */

void stream_progress(struct stream *s)
{
	bool found = false;

	if (stream_is_connecting(s))
		connect_on_events(s);
	if (!s->qp)
		return;
	message_grant(s);
	found = message_poll(s);
	if (found) {
		message_grant(s);
		wait_kick(&s->waiters);
		s->looks = 0;
	} else if (++s->looks % LOOKS_EVENT == 0 && s->phase == STREAM_CONNECTED) {
		connect_on_events(s);
	}
}

/* Waiting */

/*
 * Whether the CM channel has to wake a thread. A request stays in a listener's channel until it is
 * accepted, which kicks the waiters: to sleep on it meanwhile would be no sleep.
 */
static bool needs_channel(const struct stream *s)
{
	if (s->phase == STREAM_LISTENING)
		return !connect_has_request(s);
	return s->phase != STREAM_ENDED && s->phase != STREAM_FAILED;
}

int stream_arm(struct stream *s, struct pollfd fds[2])
{
	int count = 0;

	if (needs_channel(s))
		fds[count++] = (struct pollfd){ .fd = s->channel->fd, .events = POLLIN };
	if (s->cq) {
		if (!s->armed && !ibv_req_notify_cq(s->cq, 0))
			s->armed = true;
		fds[count++] = (struct pollfd){ .fd = s->comp->fd, .events = POLLIN };
	}
	return count;
}

void stream_disarm(struct stream *s)
{
	struct ibv_cq *cq;
	void *context;

	if (s->comp)
		while (!ibv_get_cq_event(s->comp, &cq, &context)) {
			ibv_ack_cq_events(cq, 1);
			s->armed = false;
		}
	if (s->phase == STREAM_CONNECTED || stream_is_connecting(s))
		connect_on_events(s);
	wait_kick(&s->waiters);
}

static bool is_over(struct stream *s, bool (*ready)(struct stream *s), int *rc) REQUIRES(s->lock)
{
	*rc = s->base.closed ? -EBADF : 0;
	return *rc || ready(s);
}

/* One of the stream's own: a thread that another has kicked takes no event, and kicks nobody. */
static bool is_readable(const struct pollfd *fds, int count)
{
	for (int i = 0; i < count; i++)
		if (fds[i].revents)
			return true;
	return false;
}

/* Sleeps once, unless ready() or closed. True: the wait is over, with `rc`. */
static bool sleep_once(struct stream *s, bool (*ready)(struct stream *s), int self, int timeout_ms,
		       int *rc) EXCLUDES(s->lock)
{
	struct pollfd fds[3];
	struct waiter waiter;
	int count, woken;
	bool over;

	lock_acquire(&s->lock);
	count = stream_arm(s, fds);
	stream_progress(s); /* after arming, because earlier completions raise no event */
	over = is_over(s, ready, rc);
	if (!over)
		wait_join(&s->waiters, &waiter, self); /* WAIT */
	lock_release(&s->lock);
	if (over)
		return true;
	fds[count++] = (struct pollfd){ .fd = self, .events = POLLIN };
	woken = wait_poll_joined(&waiter, &s->lock, fds, (nfds_t)count, timeout_ms);
	if (woken < 0)
		*rc = -errno;
	if (woken > 0 && fds[count - 1].revents)
		wait_clear(self);
	lock_acquire(&s->lock);
	wait_leave(&waiter);
	if (woken > 0 && is_readable(fds, count - 1))
		stream_disarm(s);
	lock_release(&s->lock);
	return *rc != 0;
}

static int sleep_until(struct stream *s, bool (*ready)(struct stream *s), uint64_t deadline_ns)
	EXCLUDES(s->lock)
{
	int self = wait_fd(), rc = 0;
	bool over = false;

	while (!over) {
		int timeout_ms = wait_left_ms(self, deadline_ns);

		if (!timeout_ms)
			return -EAGAIN;
		over = sleep_once(s, ready, self, timeout_ms, &rc);
	}
	return rc;
}

int stream_wait(struct stream *s, bool (*ready)(struct stream *s), bool nonblock,
		uint64_t deadline_ns)
{
	uint64_t start = 0, now;
	bool over;
	int rc;

	do {
		lock_acquire(&s->lock);
		stream_progress(s);
		over = is_over(s, ready, &rc);
		lock_release(&s->lock);
		if (over)
			return rc;
		if (nonblock)
			return -EAGAIN;
		now = clock_now_ns();
		if (!start)
			start = now;
	} while (now - start < config_get()->poll_us * UINT64_C(1000));
	return sleep_until(s, ready, deadline_ns);
}

short stream_poll(struct stream *s, short events)
{
	short revents = 0;

	if (s->phase == STREAM_LISTENING)
		return connect_has_request(s) ? events & (POLLIN | POLLRDNORM) : 0;
	stream_progress(s);
	if (stream_is_connecting(s))
		return 0;
	if (s->phase == STREAM_NEW || s->phase == STREAM_BOUND)
		return (events & POLLOUT) | POLLHUP;
	if (s->arrived != s->consumed || !s->may_receive)
		revents |= POLLIN | POLLRDNORM;
	if (!s->may_receive)
		revents |= POLLRDHUP;
	if (!s->may_send || message_can_send(s))
		revents |= POLLOUT | POLLWRNORM;
	revents &= events;
	if (s->error)
		revents |= POLLERR;
	/* As with TCP: POLLHUP needs both directions closed. */
	if (s->phase == STREAM_FAILED || s->reset || (s->shut_send && !s->may_receive))
		revents |= POLLHUP;
	return revents;
}
