/*
 * Close - the end of a stream, half of it or all.
 */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/stream.h"

/* shutdown(): tells the peer; waits at most until that can be posted. -errno. */
int close_half(struct stream *s, int how) EXCLUDES(s->lock);

/*
 * What rclose has to do before the last reference goes: tells the peer, waits until everything that
 * was sent has been acknowledged, as long as SO_LINGER allows or CLOSE_WAIT_S, and disconnects.
 */
enum { CLOSE_WAIT_S = 10 };
void close_stream(struct stream *s) EXCLUDES(s->lock);

#endif
