/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM moved - tells programs that an address of theirs is gone, or on another interface.
 *
 * In:  the kernel's notices of addresses, by way of cmserver/cm_interfaces.h.
 * Out: ADDR_CHANGE for identifiers that are bound to the address, or DEVICE_REMOVAL if the
 *      interface is gone; once, until the address is back.
 *
 * Loopback addresses are not looked at. An identifier on any address has none until it connects.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_MOVED_H
#define CMSERVER_CM_MOVED_H

#include <stdint.h>

#include "ctl/protocol.h"

#define CM_MOVED_ADDRESSES 512 /* of this host; with more than that, programs are told nothing */

struct cm;
struct cm_id;

struct cm_place {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

/* The interfaces of this host's addresses, as of the last look. */
struct cm_places {
	struct cm_place place[CM_MOVED_ADDRESSES];
	unsigned count;
};

/* Addresses have changed, or may have. */
void cm_moved_look(struct cm *cm);

/* The identifier is bound to this address from now on. */
void cm_moved_bind(struct cm_id *id, const uint8_t gid[CTL_GID_BYTES]);

#endif
