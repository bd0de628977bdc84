/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapping - memory of the program that the peer writes to by an offset: riomap and riowrite.
 *
 * The stream describes a mapping to the peer before it sends its next message. A mapping that ended is
 * described as an empty one; until the peer has that, a write to it breaks the connection.
 */
#ifndef RSOCKET_MAPPING_H
#define RSOCKET_MAPPING_H

#include <sys/types.h>

#include "rsocket/stream.h"

/*
 * The offset, or -errno. `offset` -1: the address is it. Without `writable` the memory is
 * registered, and nothing told. -ENOMEM: the peer has no entry free. -ENOTCONN: there is no
 * connection yet.
 */
off_t mapping_add(struct stream *s, void *memory, size_t length, bool writable, off_t offset)
	EXCLUDES(s->lock);

/* -EINVAL: nothing is mapped so. */
int mapping_remove(struct stream *s, void *memory, size_t length) EXCLUDES(s->lock);

/* Tells the peer as much of the news as can be posted. */
void mapping_tell(struct stream *s) REQUIRES(s->lock);

/* Where the peer mapped this offset, and how many bytes there are from it on. */
bool mapping_find(struct stream *s, uint64_t offset, struct region *place);

/* When the stream is freed: no thread uses it, and its QP is destroyed. */
void mapping_free(struct stream *s);

#endif
