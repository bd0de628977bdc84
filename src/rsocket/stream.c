/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "rsocket/wait.h"

bool stream_is_connecting(const struct stream *s)
{
	int phase = s->phase;

	return phase == STREAM_RESOLVING || phase == STREAM_CONNECTING || phase == STREAM_ACCEPTING;
}

bool stream_nonblocking(const struct stream *s, int flags)
{
	return (flags & MSG_DONTWAIT) || (s->base.file_flags & O_NONBLOCK);
}

void stream_end(struct stream *s, int error)
{
	/* Earlier than that a CM event tells what failed, which is more than a flushed QP tells. */
	if (s->phase != STREAM_ACCEPTING && s->phase != STREAM_CONNECTED)
		return;
	s->phase = STREAM_ENDED;
	s->may_send = s->may_receive = false;
	s->error = error;
	s->reset = error != 0;
	wait_kick(&s->waiters);
}

int stream_take_error(struct stream *s)
{
	int error = s->error;

	s->error = 0;
	return error;
}
