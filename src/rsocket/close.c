#include "rsocket/close.h"

#include <errno.h>
#include <sys/socket.h>

#include "rsocket/connect.h"
#include "rsocket/keepalive.h"
#include "rsocket/message.h"

static bool controls(struct stream *s) REQUIRES(s->lock)
{
	return s->phase != STREAM_CONNECTED || message_can_control(s);
}

static bool is_done(struct stream *s) REQUIRES(s->lock)
{
	return s->phase != STREAM_CONNECTED || message_all_done(s);
}

static bool is_settled(struct stream *s)
{
	return s->phase != STREAM_ACCEPTING;
}

static void tell(struct stream *s, enum control control) EXCLUDES(s->lock)
{
	lock_acquire(&s->lock);
	if (s->phase == STREAM_CONNECTED && message_can_control(s))
		message_post_control(s, control);
	lock_release(&s->lock);
}

/* What remains to be said to the peer; false: nothing. */
static bool shut(struct stream *s, int how, enum control *control) REQUIRES(s->lock)
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

static uint64_t after_s(unsigned seconds)
{
	return wait_now_ns() + seconds * UINT64_C(1000000000);
}

/* Signals do not cut it short: the requests before the last message complete audibly only with
 * that. */
static int wait_through(struct stream *s, bool (*ready)(struct stream *s), uint64_t deadline_ns)
	EXCLUDES(s->lock)
{
	int rc;

	do
		rc = stream_wait(s, ready, false, deadline_ns);
	while (rc == -EINTR);
	return rc;
}

int close_half(struct stream *s, int how)
{
	enum control control;
	bool say;
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (s->phase == STREAM_ACCEPTING)
		wait_through(s, is_settled, after_s(CLOSE_WAIT_S));
	if (s->phase != STREAM_CONNECTED)
		return s->phase == STREAM_ENDED ? 0 : -ENOTCONN;
	lock_acquire(&s->lock);
	say = shut(s, how, &control);
	lock_release(&s->lock);
	if (!say)
		return 0;
	rc = wait_through(s, controls, after_s(CLOSE_WAIT_S));
	if (!rc)
		tell(s, control);
	return rc;
}

void close_stream(struct stream *s)
{
	unsigned seconds = s->linger.l_onoff && s->linger.l_linger >= 0
				   ? (unsigned)s->linger.l_linger
				   : CLOSE_WAIT_S;

	keepalive_stop(s);
	if (s->phase == STREAM_CONNECTED || s->phase == STREAM_ACCEPTING) {
		uint64_t deadline = after_s(seconds);

		close_half(s, SHUT_RDWR);
		wait_through(s, is_done, deadline);
	}
	lock_acquire(&s->lock);
	s->base.closed = true;
	wait_kick(&s->waiters);
	connect_end(s);
	lock_release(&s->lock);
}
