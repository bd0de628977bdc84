/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress of streams - polls for completions and CM events, and waits for them.
 *
 * In:  calls of any thread; completions and CM events, which those calls fetch.
 * Out: the state of the stream; threads that wait are woken.
 *
 * A stream has no thread: calls of the program process what has arrived. Between calls the adapter
 * receives data, credits and acknowledgements by itself, until the credits are used up.
 */
#ifndef RSOCKET_STREAM_PROGRESS_H
#define RSOCKET_STREAM_PROGRESS_H

#include <poll.h>

#include "rsocket/stream.h"

/* Polls the CQ and, while connecting or now and then, the CM channel. Never sleeps. */
void stream_progress(struct stream *s) REQUIRES(s->lock);

/*
 * Waits until ready(s), which is called under lock, returns true. Busy-polls for polling_time
 * (config.h), then sleeps. 0; -EAGAIN at once if `nonblock`, or at the deadline (CLOCK_MONOTONIC,
 * 0: none); -EINTR; -EBADF after rclose.
 */
int stream_wait(struct stream *s, bool (*ready)(struct stream *s), bool nonblock,
		uint64_t deadline_ns) EXCLUDES(s->lock);

/* Makes progress and returns the revents of poll(2): those of `events`, POLLERR and POLLHUP. */
short stream_poll(struct stream *s, short events) REQUIRES(s->lock);

/* Arms the CQ and fills in the descriptors to sleep on. Returns how many, at most 2. */
int stream_arm(struct stream *s, struct pollfd fds[2]) REQUIRES(s->lock);

/* After a descriptor of stream_arm was readable: takes the events and wakes the other waiters. */
void stream_disarm(struct stream *s) REQUIRES(s->lock);

#endif
