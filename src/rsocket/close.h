/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Close - the end of a stream, half of it or all.
 *
 * The calls wait until the peer's host has acknowledged. For a non-blocking stream they wait at most
 * CLOSE_GRACE_MS: one silent peer must not hold up a program that serves others. Later calls send the
 * rest, and after rclose the thread of linger.c.
 */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/stream.h"

enum { CLOSE_GRACE_MS = 5, CLOSE_WAIT_MS = 10000 };

/* shutdown(): tells the peer, if not at once then as soon as that can be posted. -errno. */
int close_half(struct stream *s, int how) EXCLUDES(s->lock);

/*
 * rclose's work before it drops the last reference: tells the peer, waits until what was sent is
 * acknowledged, for SO_LINGER or CLOSE_WAIT_MS, and disconnects.
 */
void close_stream(struct stream *s) EXCLUDES(s->lock);

/* Whether a closed stream has nothing more to send, or has no peer any more. */
bool close_is_over(struct stream *s) REQUIRES(s->lock);

#endif
