/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Route - the path from an identifier's address to the other end, as route.path_rec shows it.
 *
 * There is one to each address, and it needs no looking for; a program may give its own
 * (RDMA_OPTION_IB_PATH), of which the MTU and the traffic class count.
 *
 * Any thread; does not block.
 */
#ifndef CM_ROUTE_H
#define CM_ROUTE_H

#include <stddef.h>

#include "cm/id.h"

/*
 * paths: an array of struct ibv_path_data, in which one is primary and goes both ways. As
 * rdma_resolve_route does, it leads to ROUTE_RESOLVED. 0; -EINVAL: none of them is, it leads
 * elsewhere, or the address is not resolved; -errno.
 */
int route_give(struct id *id, const void *paths, size_t bytes);

#endif
