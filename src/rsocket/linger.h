/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linger - a thread delivers what a closed stream has not yet brought to the peer's host, as the kernel
 * does for a socket.
 *
 * The thread runs as long as there is such a stream. exit() waits for it, because nothing delivers the
 * rest afterwards. A process that ends otherwise (_exit, a signal) loses it.
 *
 * Lock: the mutex of linger.c guards the list of streams. It is innermost, and held for no longer
 * than a step in the list.
 */
#ifndef RSOCKET_LINGER_H
#define RSOCKET_LINGER_H

#include "rsocket/stream.h"

/*
 * Takes a reference, and gives it back when close_is_over, or at the time given, having
 * disconnected. -errno: there can be no thread.
 */
int linger_add(struct stream *s, uint64_t until_ns) EXCLUDES(s->lock);

/* For the child of a fork: the streams are the parent's. */
void linger_forget(void);

#endif
