/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM interfaces - opens the GSI at all addresses of this host, for listeners on any address; and
 * passes on the kernel's notices of addresses.
 *
 * In:  the number of such listeners, and of others that watch addresses; the kernel's notices.
 * Out: open ports (cmserver/gsi.h) of all addresses except loopback, as they come and go; calls of
 *      on_addresses while there are watchers, the first at once.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_INTERFACES_H
#define CMSERVER_CM_INTERFACES_H

#include "base/list.h"
#include "event/loop.h"

struct gsi;

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
};

void cm_interfaces_init(struct cm_interfaces *i, struct gsi *gsi, struct loop *loop,
			void (*on_addresses)(struct cm_interfaces *i));
void cm_interfaces_get(struct cm_interfaces *i);
void cm_interfaces_put(struct cm_interfaces *i);

void cm_interfaces_watch(struct cm_interfaces *i);
void cm_interfaces_unwatch(struct cm_interfaces *i);

#endif
