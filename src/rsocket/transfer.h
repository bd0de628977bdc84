/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfer - bytes of the program into and out of a stream.
 *
 * Each call copies: the program may reuse its memory when it returns. Blocking calls sleep like those
 * of a socket; several threads may send, and several receive. All return the number of bytes, or
 * -errno; fewer bytes than asked for if an error came, or the call would have blocked, after them.
 */
#ifndef RSOCKET_TRANSFER_H
#define RSOCKET_TRANSFER_H

#include <sys/types.h>
#include <sys/uio.h>

#include "rsocket/stream.h"

/* The bytes of several pieces, one after the other. */
struct pieces {
	const struct iovec *iov;
	size_t count;
	size_t offset; /* into the first */
};

/* -EINVAL: more than fit into an ssize_t. */
ssize_t pieces_length(const struct pieces *pieces);
void pieces_gather(struct pieces *from, void *to, size_t length);
void pieces_scatter(struct pieces *to, const void *from, size_t length);

ssize_t transfer_send(struct stream *s, struct pieces *pieces, int flags);
ssize_t transfer_receive(struct stream *s, struct pieces *pieces, int flags);

/* Into the peer's mapping at `offset`. 0: nothing is mapped there. */
ssize_t transfer_send_to(struct stream *s, const void *data, size_t length, uint64_t offset,
			 int flags);

/* 0 once the connection stands; -EAGAIN if that would take waiting, -ENOTCONN if none was requested. */
int transfer_connected(struct stream *s, int flags);

#endif
