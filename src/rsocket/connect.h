/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connect - connects, accepts and disconnects streams.
 *
 * In:  CM events of the stream's channel.
 * Out: CM calls; the stream's phase.
 *
 * The channel is non-blocking, so nothing here sleeps; stream_wait waits for the outcome. A
 * connection makes progress only in calls of the program: rpoll, rselect, or any call that waits.
 */
#ifndef RSOCKET_CONNECT_H
#define RSOCKET_CONNECT_H

#include "rsocket/stream.h"

/*
 * 0 or -errno: -EINVAL in a wrong phase, -EAFNOSUPPORT, or what rdma_bind_addr and rdma_listen set.
 */
int connect_bind(struct stream *s, const struct sockaddr *addr, socklen_t length) REQUIRES(s->lock);
int connect_listen(struct stream *s, int backlog) REQUIRES(s->lock);

/*
 * Starts to resolve the address: 0 or -errno. From then on s->phase and s->error tell the outcome.
 */
int connect_start(struct stream *s, const struct sockaddr *addr, socklen_t length)
	REQUIRES(s->lock);

/* A request, or another event, waits in the listener's channel. */
bool connect_has_request(const struct stream *listener);

/* Accepts the listener's next connection request. 0, -EAGAIN (there is none), or another -errno. */
int connect_accept(struct stream *listener, struct stream **stream) REQUIRES(listener->lock);

/*
 * Listens no more: from now on it is STREAM_FAILED, and clients are refused. 0, or why they are
 * not, which the stream's end sets right: what rdma_create_id sets.
 */
int connect_unlisten(struct stream *listener) REQUIRES(listener->lock);

/* Processes the CM events that wait, of a stream that connects or is connected. */
void connect_on_events(struct stream *s) REQUIRES(s->lock);

/* Disconnects once: sends a DREQ and moves the QP to the error state, which flushes it. */
void connect_end(struct stream *s) REQUIRES(s->lock);

#endif
