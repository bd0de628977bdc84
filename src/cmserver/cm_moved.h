/*
 * CM moved - tells identifiers that the address they are bound to is gone, or another interface's.
 *
 * In:  the kernel's notices of addresses, by way of cmserver/cm_interfaces.h.
 * Out: ADDR_CHANGE, or DEVICE_REMOVAL if the interface itself is no more; once, until it is back.
 *
 * Loopback addresses stay. An identifier on all addresses has none until it connects.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_MOVED_H
#define CMSERVER_CM_MOVED_H

#include <stdint.h>

#include "ctl/protocol.h"

#define CM_MOVED_ADDRESSES 512 /* of this host; identifiers on others are told nothing */

struct cm;
struct cm_id;

struct cm_place {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

/* Where the addresses of this host are, as far as it was looked. */
struct cm_places {
	struct cm_place place[CM_MOVED_ADDRESSES];
	unsigned count;
};

/* Something changed, or may have. */
void cm_moved_look(struct cm *cm);

/* The identifier is bound to this address from now on. */
void cm_moved_bind(struct cm_id *id, const uint8_t gid[CTL_GID_BYTES]);

#endif
