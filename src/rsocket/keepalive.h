/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keepalive - sends an empty RDMA WRITE from time to time on each stream with SO_KEEPALIVE. When
 * the peer has vanished its host does not acknowledge, and the stream ends with ECONNRESET.
 *
 * One thread of the process sends them, with all signals blocked. It runs while there is such a
 * stream.
 */
#ifndef RSOCKET_KEEPALIVE_H
#define RSOCKET_KEEPALIVE_H

#include "rsocket/stream.h"

/*
 * Sends every s->keepalive_s seconds from now on. A 0 there becomes the system's
 * tcp_keepalive_time. 0, or -errno: the thread cannot be started.
 */
int keepalive_start(struct stream *s);

/* After its return the thread does not use the stream. */
void keepalive_stop(struct stream *s);

/* In the child of a fork: forgets the thread and the streams, which are the parent's. */
void keepalive_forget(void);

#endif
