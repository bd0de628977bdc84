/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer link - makes a link of the descriptors that verbatimd hands over.
 *
 * In:  ctl_peer_info: the peer's arena, wake eventfd, heap, and the memory of the link.
 * Out: a struct link (shm/link.h) that was not yet used; not in any table.
 *
 * Whatever the peer or verbatimd hands over is checked: it can make this fail, no more. Any thread,
 * no locks.
 */
#ifndef ADAPTER_PEER_LINK_H
#define ADAPTER_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/client.h"
#include "shm/link.h"

/* NULL: it is no arena, or no memory. What the link keeps is -1 in `info` afterwards. */
struct link *peer_link_make(struct ctl_peer_info *info);

/* The link of this process to itself. `wake_fd` is duplicated. NULL: there is no memory for it. */
struct link *peer_link_make_self(uint32_t slot, void *arena, int wake_fd);

/* There is memory for a link in it, large enough. */
bool peer_link_offers_memory(const struct ctl_peer_info *info);

/* Closes what is left of it. */
void peer_link_close_info(struct ctl_peer_info *info);

#endif
