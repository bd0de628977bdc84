/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/pieces.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

ssize_t pieces_length(const struct pieces *pieces)
{
	size_t length = 0;

	for (size_t i = 0; i < pieces->count; i++) {
		length += pieces->iov[i].iov_len;
		if (pieces->iov[i].iov_len > SSIZE_MAX || length > SSIZE_MAX)
			return -EINVAL;
	}
	return (ssize_t)(length - pieces->offset);
}

/* The next contiguous bytes, at most `max`, of which it returns how many in `length`; moves on. */
static void *next_piece(struct pieces *pieces, size_t max, size_t *length)
{
	char *at;

	while (pieces->offset == pieces->iov->iov_len) {
		pieces->iov++;
		pieces->count--;
		pieces->offset = 0;
	}
	at = (char *)pieces->iov->iov_base + pieces->offset;
	*length = pieces->iov->iov_len - pieces->offset;
	if (*length > max)
		*length = max;
	pieces->offset += *length;
	return at;
}

void pieces_gather(struct pieces *from, void *to, size_t length)
{
	while (length) {
		size_t n;
		const void *piece = next_piece(from, length, &n);

		memcpy(to, piece, n);
		to = (char *)to + n;
		length -= n;
	}
}

void pieces_scatter(struct pieces *to, const void *from, size_t length)
{
	while (length) {
		size_t n;
		void *piece = next_piece(to, length, &n);

		memcpy(piece, from, n);
		from = (const char *)from + n;
		length -= n;
	}
}
