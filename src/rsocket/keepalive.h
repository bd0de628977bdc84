/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keepalive - sends a message now and then on streams with SO_KEEPALIVE. If the peer vanished the
 * message is not acknowledged, and the stream ends with ECONNRESET.
 *
 * One thread, with all signals blocked, as long as there are such streams.
 */
#ifndef RSOCKET_KEEPALIVE_H
#define RSOCKET_KEEPALIVE_H

#include "rsocket/stream.h"

/* Each `s->keepalive_s` from now on; 0 there: as often as the system does for TCP. -errno. */
int keepalive_start(struct stream *s);

/* When it returns, the thread does not know the stream any more. */
void keepalive_stop(struct stream *s);

/* For the child of a fork: there is no thread, and no stream. */
void keepalive_forget(void);

#endif
