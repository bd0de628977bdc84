/*
 * Close - the end of a stream, half of it or all.
 *
 * Whoever waits here waits for the peer's host to acknowledge. A stream that is non-blocking is not
 * waited for longer than CLOSE_GRACE_MS: one peer that is silent must not hold up a program that
 * serves others. What it still has to say is said by later calls, and after rclose by linger.c.
 */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/stream.h"

enum { CLOSE_GRACE_MS = 5, CLOSE_WAIT_MS = 10000 };

/* shutdown(): tells the peer, if not at once then as soon as that can be posted. -errno. */
int close_half(struct stream *s, int how) EXCLUDES(s->lock);

/*
 * What rclose has to do before the last reference goes: tells the peer, and sees to it that what
 * was sent is acknowledged, as long as SO_LINGER allows or CLOSE_WAIT_MS; then disconnects.
 */
void close_stream(struct stream *s) EXCLUDES(s->lock);

/* Whether a stream that is closed has nothing more to say, or nobody to say it to. */
bool close_is_over(struct stream *s) REQUIRES(s->lock);

#endif
