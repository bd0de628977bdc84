/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Route - the path from an identifier's address to the other end, as route.path_rec shows it.
 *
 * Each address has one path, which needs no query. A program may give its own
 * (RDMA_OPTION_IB_PATH), of which the MTU and the traffic class count.
 *
 * Any thread; does not block.
 */
#ifndef CM_ROUTE_H
#define CM_ROUTE_H

#include <stddef.h>

#include "cm/id.h"

/*
 * paths: an array of struct ibv_path_data with one primary path for both directions. Raises
 * ROUTE_RESOLVED, as rdma_resolve_route does. 0; -EINVAL: no path is primary, it leads to another
 * address, or the address is not resolved; -errno.
 */
int route_give(struct id *id, const void *paths, size_t bytes);

#endif
