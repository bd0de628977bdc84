/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host address - whether an address is one of this host's.
 *
 * In:  the kernel's routing table, by netlink. The kernel decides so where a packet to that address
 *      goes. host_holds_address may look through all addresses of all interfaces, too.
 *
 * A bind() is no test: with net.ipv4.ip_nonlocal_bind (or ipv6's), which keepalived and haproxy
 * need, it succeeds with any address.
 *
 * No state, so nothing to invalidate. host_has_address takes some microseconds, also on a host with
 * thousands of addresses. Neither blocks, or is a cancellation point.
 */
#ifndef BASE_HOST_ADDRESS_H
#define BASE_HOST_ADDRESS_H

#include <stdint.h>

/*
 * The address as a GID; `ifindex` is that of an IPv6 link-local address, 0: on any interface.
 * 1: it is, 0: it is not, -errno: the kernel cannot be asked.
 */
int host_has_address(const uint8_t gid[16], uint32_t ifindex);

/*
 * The same where rules may send packets for an own address elsewhere (policy routing, VRFs): if the
 * routing table does not say so, all addresses of all interfaces are looked through. For addresses
 * that are expected to be this host's.
 */
int host_holds_address(const uint8_t gid[16], uint32_t ifindex);

#endif
