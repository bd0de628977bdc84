/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM interfaces - opens the GSI at all addresses of this host, for listeners on any address; passes
 * on the kernel's notices of addresses; and knows on which interface each address is.
 *
 * In:  the number of such listeners, and of others that watch addresses; the kernel's notices.
 * Out: open ports (cmserver/gsi.h) of all current addresses except loopback; calls of on_addresses
 *      while there are watchers, the first at once.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_INTERFACES_H
#define CMSERVER_CM_INTERFACES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "event/loop.h"

#define CM_INTERFACES_ADDRESSES 512 /* of this host; with more than that, none counts as moved */

struct gsi;

struct cm_place {
	uint8_t gid[CTL_GID_BYTES];
	uint32_t ifindex;
};

struct cm_interfaces {
	struct gsi *gsi;
	struct loop *loop;
	void (*on_addresses)(struct cm_interfaces *i);
	unsigned users;	   /* listeners */
	unsigned watchers; /* listeners and others */
	struct list open;  /* struct open_address */
	int netlink_fd;	   /* -1: not watching */
	struct loop_source on_change;
	struct loop_timer again; /* armed while a port could not be opened */

	/* The interface of each address, at the last look. */
	struct cm_place place[CM_INTERFACES_ADDRESSES];
	unsigned place_count;
};

void cm_interfaces_init(struct cm_interfaces *i, struct gsi *gsi, struct loop *loop,
			void (*on_addresses)(struct cm_interfaces *i));
void cm_interfaces_get(struct cm_interfaces *i);
void cm_interfaces_put(struct cm_interfaces *i);

void cm_interfaces_watch(struct cm_interfaces *i);
void cm_interfaces_unwatch(struct cm_interfaces *i);

/*
 * Reads the interface of each address. False: the kernel does not say, or there are more addresses
 * than fit, so an address that is not found may exist.
 */
bool cm_interfaces_look(struct cm_interfaces *i);

/*
 * The interface of the address at the last look; 0: none. A link-local address may have several:
 * the preferred one if it is among them.
 */
uint32_t cm_interfaces_find(const struct cm_interfaces *i, const uint8_t gid[CTL_GID_BYTES],
			    uint32_t preferred);

#endif
