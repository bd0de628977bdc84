/*
 * CM interfaces - the GSI at all addresses of this host, for listeners on any address; and the
 * kernel's notices of addresses, for all that depends on them.
 *
 * In:  how many such listeners there are, and how many others watch; the notices.
 * Out: open ports (cmserver/gsi.h) of all addresses but those of loopback, as they come and go;
 *      calls of on_addresses while somebody watches, the first of them at once.
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
	unsigned watchers; /* users among them */
	struct list open;  /* struct open_address */
	int netlink_fd;	   /* -1: not watching */
	struct loop_source on_change;
	struct loop_timer again; /* a port was taken: armed while one is missing */
};

void cm_interfaces_init(struct cm_interfaces *i, struct gsi *gsi, struct loop *loop,
			void (*on_addresses)(struct cm_interfaces *i));
void cm_interfaces_get(struct cm_interfaces *i);
void cm_interfaces_put(struct cm_interfaces *i);

void cm_interfaces_watch(struct cm_interfaces *i);
void cm_interfaces_unwatch(struct cm_interfaces *i);

#endif
