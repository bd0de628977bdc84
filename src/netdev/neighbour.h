/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Neighbour - the Ethernet address of an IP address's next hop, from the kernel's neighbour table.
 *
 * In:  a GID of another host, the interface.
 * Out: the address of that host, or of the router towards it.
 *
 * Any thread. Blocks for up to a second, while the kernel asks for an address that it does not
 * know.
 */
#ifndef NETDEV_NEIGHBOUR_H
#define NETDEV_NEIGHBOUR_H

#include <infiniband/verbs.h>
#include <stdint.h>

#define NEIGHBOUR_BYTES 6

/*
 * 0, or an errno without a cause: ENETUNREACH no route by this interface, EHOSTUNREACH no host
 * answers.
 */
int neighbour_find(uint32_t ifindex, const union ibv_gid *gid, uint8_t mac[NEIGHBOUR_BYTES]);

#endif
