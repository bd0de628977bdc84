/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer link - makes a link of the descriptors that verbatimd hands over.
 *
 * In:  ctl_peer_info: the peer's arena, wake eventfd, heap, and the memory of the link.
 * Out: a struct link (shm/link.h) that was not yet used; not in any table.
 *
 * All that the peer or verbatimd hands over is checked; if it is wrong, the call fails. Any thread,
 * no locks.
 */
#ifndef ADAPTER_PEER_LINK_H
#define ADAPTER_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"
#include "shm/link.h"

/* NULL: not an arena, or no memory. Descriptors that the link keeps become -1 in `info`. */
struct link *peer_link_make(struct ctl_peer_info *info);

/* The link of this process to itself. `wake_fd` is duplicated. 0 or -errno. */
int peer_link_make_self(uint32_t slot, void *arena, int wake_fd, struct link **out);

/* It has a memfd for the link, of the right size. */
bool peer_link_offers_memory(const struct ctl_peer_info *info);

/*
 * The inode of the arena. The kernel numbers those of memfds one after the other, with 32 bits, so
 * no two processes that live have the same.
 */
uint64_t peer_link_arena_file(const struct ctl_peer_info *info);
/* The memory that it offers, likewise. */
uint64_t peer_link_memory_file(const struct ctl_peer_info *info);

/* Closes the descriptors that are left in it. */
void peer_link_close_info(struct ctl_peer_info *info);

#endif
