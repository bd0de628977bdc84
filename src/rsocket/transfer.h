/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfer - copies the program's bytes into and out of a stream: rsend, rrecv and riowrite.
 *
 * The program may reuse its memory when a call returns. Blocking calls sleep like those of a
 * socket; several threads may send, and several receive. Calls return the number of bytes, or
 * -errno. They return fewer bytes than asked for if an error follows them, or the call would block.
 */
#ifndef RSOCKET_TRANSFER_H
#define RSOCKET_TRANSFER_H

#include <sys/types.h>

#include "rsocket/pieces.h"
#include "rsocket/stream.h"

ssize_t transfer_send(struct stream *s, struct pieces *pieces, int flags);
ssize_t transfer_receive(struct stream *s, struct pieces *pieces, int flags);

/* Writes to the peer's mapping at `offset`. Returns 0 if nothing is mapped there. */
ssize_t transfer_send_to(struct stream *s, const void *data, size_t length, uint64_t offset,
			 int flags);

/*
 * Waits until the connection is established or has failed: 0. -ENOTCONN: none was requested.
 * -EAGAIN from a non-blocking stream, and the other errors of stream_wait.
 */
int transfer_connected(struct stream *s, int flags);

#endif
