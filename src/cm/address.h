/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address - converts socket addresses of programs to those of the protocol, and back; finds routes.
 *
 * Pure, but for address_is_local, address_is_held and address_route, which ask the kernel and do
 * not block.
 */
#ifndef CM_ADDRESS_H
#define CM_ADDRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "ctl/protocol.h"

/* 0; -ENODEV, with a cause: AF_IB; -EINVAL: none of IPv4, IPv6 and AF_IB. */
int address_from_sockaddr(const struct sockaddr *sa, struct ctl_cm_address *out);

/* out has room for a sockaddr_storage. */
void address_to_sockaddr(const struct ctl_cm_address *a, struct sockaddr *out);

/* 0: neither IPv4 nor IPv6. */
socklen_t address_length(const struct sockaddr *sa);

/* 0.0.0.0 or ::, or no address at all. */
bool address_is_any(const struct ctl_cm_address *a);
bool address_is_multicast(const struct ctl_cm_address *a);

/* IPv6 link-local without an interface. */
bool address_lacks_interface(const struct ctl_cm_address *a);

/* 127.0.0.1 or ::1, as the family says; the port stays. */
void address_set_loopback(struct ctl_cm_address *a);

bool address_is_loopback(const struct ctl_cm_address *a);

/* The address's GID for RoCEv2. The GID of an IPv4 group is IPv4-mapped, too. */
void address_gid(const struct ctl_cm_address *a, union ibv_gid *gid);

/* Whether this host has the address: 1 or 0; -errno: the kernel cannot be asked. */
int address_is_local(const struct ctl_cm_address *a);

/* The same of one that ought to be: also where rules send packets for it elsewhere. */
int address_is_held(const struct ctl_cm_address *a);

/* The interface has the address. */
bool address_is_of(const struct ctl_cm_address *a, uint32_t ifindex);

/*
 * Finds the local address that reaches `remote`: *local if it is set, else the route's. Sets
 * address and interface in *local, not its port. 0; -ENETUNREACH and others of connect(2).
 */
int address_route(const struct ctl_cm_address *remote, struct ctl_cm_address *local);

#endif
