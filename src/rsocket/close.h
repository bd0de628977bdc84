/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Close - rshutdown and rclose of a stream.
 *
 * Both calls wait until the peer's host has acknowledged what was sent. For a non-blocking stream
 * they wait CLOSE_GRACE_MS at most, so that one silent peer does not hold up a program that serves
 * others. After rshutdown the program's later calls send the rest; after rclose the thread of
 * linger.c does.
 */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/stream.h"

enum {
	CLOSE_GRACE_MS = 5,    /* a non-blocking stream waits no longer */
	CLOSE_WAIT_MS = 10000, /* a blocking one, and the thread of linger.c, without SO_LINGER */
};

/*
 * rshutdown: sends the peer a control message, now or as soon as it can be posted. `how` is
 * SHUT_RD, SHUT_WR or SHUT_RDWR. A listener listens no more, as with TCP, unless it is SHUT_WR. 0,
 * -EINVAL (another `how`), -ENOTCONN or -EBADF (closed by another thread).
 */
int close_half(struct stream *s, int how) EXCLUDES(s->lock);

/*
 * rclose's work before it drops the last reference. Sends the peer a control message, waits until
 * everything is acknowledged, for the time of SO_LINGER or CLOSE_WAIT_MS at most, and disconnects.
 */
void close_stream(struct stream *s) EXCLUDES(s->lock);

#endif
