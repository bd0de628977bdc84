/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pieces - copies between the program's iovecs and memory in one piece.
 */
#ifndef RSOCKET_PIECES_H
#define RSOCKET_PIECES_H

#include <sys/types.h>
#include <sys/uio.h>

/* A position in the program's iovecs. */
struct pieces {
	const struct iovec *iov;
	size_t count;
	size_t offset; /* into the first */
};

/* The bytes that are left; -EINVAL: more than SSIZE_MAX. */
ssize_t pieces_length(const struct pieces *pieces);

/* Copy `length` bytes, which the pieces have, and move the position on. */
void pieces_gather(struct pieces *from, void *to, size_t length);
void pieces_scatter(struct pieces *to, const void *from, size_t length);

#endif
