/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapping - memory of the program that the peer writes to by an offset: riomap and riowrite.
 *
 * The stream tells the peer of a mapping before it sends its next message. An unmapped one it
 * describes as empty. Until the peer has that message, a riowrite of the peer to it breaks the
 * connection.
 */
#ifndef RSOCKET_MAPPING_H
#define RSOCKET_MAPPING_H

#include <sys/types.h>

#include "rsocket/stream.h"

/*
 * Maps `length` bytes, at most UINT32_MAX, at `offset`; -1 takes the address as offset. Returns the
 * offset, or -errno. Memory that is not `writable` is registered, and the peer does not learn of
 * it. -ENOMEM: the peer has no free entry. -ENOTCONN: there is no connection yet. -EINVAL: too
 * long.
 */
off_t mapping_add(struct stream *s, void *memory, size_t length, bool writable, off_t offset)
	EXCLUDES(s->lock);

/*
 * Unmaps what mapping_add mapped with this address and length: 0, or -EINVAL if there is none.
 * -EBUSY as ibv_dereg_mr: a process may store there still. It can be repeated.
 */
int mapping_remove(struct stream *s, void *memory, size_t length) EXCLUDES(s->lock);

/* Posts messages about new and unmapped mappings, as many as message_can_send allows. */
void mapping_tell(struct stream *s) REQUIRES(s->lock);

/*
 * The peer's address and key for `offset`, and how many bytes follow. False: nothing is mapped
 * there.
 */
bool mapping_find(struct stream *s, uint64_t offset, struct region *place);

/* Frees all mappings of a stream that no thread uses and whose QP is destroyed. */
void mapping_free(struct stream *s);

#endif
