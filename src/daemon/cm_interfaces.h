/*
 * CM interfaces - the GSI at all addresses of this host, for listeners on any address.
 *
 * In:  how many such listeners there are; the kernel's notices of addresses.
 * Out: open ports (daemon/gsi.h) of all addresses but those of loopback, as they come and go.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_CM_INTERFACES_H
#define DAEMON_CM_INTERFACES_H

#include "daemon/list.h"
#include "daemon/loop.h"

struct gsi;

struct cm_interfaces {
	struct gsi *gsi;
	struct loop *loop;
	unsigned users;
	struct list open; /* struct open_address */
	int netlink_fd;	  /* -1: not watching */
	struct loop_source on_change;
	struct loop_timer again; /* a port was taken: armed while one is missing */
};

void cm_interfaces_init(struct cm_interfaces *i, struct gsi *gsi, struct loop *loop);
void cm_interfaces_get(struct cm_interfaces *i);
void cm_interfaces_put(struct cm_interfaces *i);

#endif
