/*
 * Linger - what was sent to a stream that the program has closed, and has not reached the peer's
 * host yet: a thread brings it there, as the kernel does for a socket.
 *
 * The thread is there as long as there is such a stream. exit() waits for it: nobody else would go
 * on. A process that ends otherwise (_exit, a signal) takes what is left with it.
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
