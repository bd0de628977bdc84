/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/close.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "rsocket/connect.h"
#include "rsocket/keepalive.h"
#include "rsocket/linger.h"
#include "rsocket/message.h"
#include "rsocket/stream_progress.h"
#include "rsocket/wait.h"

static bool control_posted(struct stream *s) REQUIRES(s->lock)
{
	return !s->owes || (s->phase != STREAM_CONNECTED && s->phase != STREAM_ACCEPTING);
}

/* Closes the directions of `how`. True: the peer has to get `control`. */
static bool close_directions(struct stream *s, int how, enum control *control) REQUIRES(s->lock)
{
	bool sent = s->may_send, received = s->may_receive;

	if (how != SHUT_WR) {
		s->shut_receive = true;
		s->may_receive = false;
	}
	if (how != SHUT_RD) {
		s->shut_send = true;
		s->may_send = false;
	}
	wait_kick(&s->waiters);
	*control = s->may_receive ? CONTROL_SHUTDOWN : CONTROL_DISCONNECT;
	return (sent || received) && !s->may_send && (sent || !s->may_receive);
}

static uint64_t after_ms(uint64_t ms)
{
	return clock_now_ns() + ms * UINT64_C(1000000);
}

/*
 * Goes on after EINTR: the requests before the last message are unsignaled, and only the completion
 * of that message tells that they are done.
 */
static int wait_uninterrupted(struct stream *s, bool (*ready)(struct stream *s),
			      uint64_t deadline_ns) EXCLUDES(s->lock)
{
	int rc;

	do
		rc = stream_wait(s, ready, false, deadline_ns);
	while (rc == -EINTR);
	return rc;
}

/* False: there is no connection, or it has ended. */
static bool begin_shutdown(struct stream *s, int how) EXCLUDES(s->lock)
{
	enum control control;
	bool open;

	lock_acquire(&s->lock);
	open = s->phase == STREAM_CONNECTED || s->phase == STREAM_ACCEPTING;
	if (open && close_directions(s, how, &control))
		message_owe_control(s, control);
	lock_release(&s->lock);
	return open;
}

static int end_listener(struct stream *s, int how) EXCLUDES(s->lock)
{
	int rc = 0;

	lock_acquire(&s->lock);
	if (s->phase == STREAM_LISTENING && how != SHUT_WR)
		rc = connect_unlisten(s);
	lock_release(&s->lock);
	return rc;
}

int close_half(struct stream *s, int how)
{
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (s->phase == STREAM_LISTENING)
		return end_listener(s, how);
	if (!begin_shutdown(s, how))
		return s->phase == STREAM_ENDED ? 0 : -ENOTCONN;
	rc = wait_uninterrupted(
		s, control_posted,
		after_ms(stream_nonblocking(s, 0) ? CLOSE_GRACE_MS : CLOSE_WAIT_MS));
	return rc == -EAGAIN ? 0 : rc;
}

/* True: the thread of linger.c sends the rest. */
static bool wait_or_hand_over(struct stream *s)
{
	uint64_t until = after_ms(CLOSE_WAIT_MS);

	if (s->linger.l_onoff) {
		/* A linger time of 0 discards the rest, as with TCP. */
		if (s->linger.l_linger > 0)
			wait_uninterrupted(s, linger_is_over,
					   after_ms((uint64_t)s->linger.l_linger * 1000));
		return false;
	}
	if (stream_nonblocking(s, 0)) {
		if (wait_uninterrupted(s, linger_is_over, after_ms(CLOSE_GRACE_MS)) != -EAGAIN)
			return false;
		if (!linger_add(s, until))
			return true;
	}
	wait_uninterrupted(s, linger_is_over, until);
	return false;
}

void close_stream(struct stream *s)
{
	bool handed_over;

	keepalive_stop(s);
	handed_over = begin_shutdown(s, SHUT_RDWR) && wait_or_hand_over(s);
	lock_acquire(&s->lock);
	s->base.closed = true;
	wait_kick(&s->waiters);
	if (!handed_over)
		connect_end(s);
	lock_release(&s->lock);
}
