/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connect - connects and disconnects streams: the calls and events of the CM.
 *
 * The id of a stream is asynchronous, and its channel never blocks. So nothing here sleeps; stream_wait
 * waits for the outcome. A connection makes progress only in calls of the program: rpoll, rselect, or
 * any call that waits.
 */
#ifndef RSOCKET_CONNECT_H
#define RSOCKET_CONNECT_H

#include "rsocket/stream.h"

int connect_bind(struct stream *s, const struct sockaddr *addr, socklen_t length) REQUIRES(s->lock);
int connect_listen(struct stream *s, int backlog) REQUIRES(s->lock);

/* Begins: 0, or -errno; the phase tells the rest. */
int connect_start(struct stream *s, const struct sockaddr *addr, socklen_t length)
	REQUIRES(s->lock);

/* A new stream from a request that has come to the listener: -EAGAIN: there is none. */
int connect_accept(struct stream *listener, struct stream **stream) REQUIRES(listener->lock);

/* Takes events of a stream that connects, or was connected. */
void connect_on_events(struct stream *s) REQUIRES(s->lock);

/* Tells the peer's CM that this is the end, and flushes the QP. */
void connect_end(struct stream *s) REQUIRES(s->lock);

#endif
