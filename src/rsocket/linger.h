/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linger - a thread that delivers what closed streams have not yet sent, as the kernel does for
 * TCP.
 *
 * The thread runs while there is such a stream. exit() waits for it, because nothing delivers the
 * rest afterwards. A process that ends otherwise (_exit, a signal) loses the rest.
 *
 * Lock: the mutex of linger.c guards the list of streams. It is innermost; a thread holds it for
 * one step in the list.
 */
#ifndef RSOCKET_LINGER_H
#define RSOCKET_LINGER_H

#include "rsocket/stream.h"

/* True when a closed stream has nothing more to send, or its connection has ended. */
bool linger_is_over(struct stream *s) REQUIRES(s->lock);

/*
 * Takes a reference to a closed stream. The thread disconnects the stream and drops the reference
 * at linger_is_over, or at `until_ns` (CLOCK_MONOTONIC). 0, or -errno: the thread cannot be
 * started.
 */
int linger_add(struct stream *s, uint64_t until_ns) EXCLUDES(s->lock);

/* In the child of a fork: forgets the thread and the streams, which are the parent's. */
void linger_forget(void);

#endif
