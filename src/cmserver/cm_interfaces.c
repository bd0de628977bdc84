/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/gid.h"
#include "base/netlink.h"
#include "cmserver/gsi.h"

#define AGAIN_MS 1000

struct open_address {
	struct list in_open;
	struct gsi_port *port;
	bool seen;
};

static struct open_address *find_open(struct cm_interfaces *i, const uint8_t *gid, uint32_t ifindex)
{
	struct list *m;

	list_for_each(m, &i->open) {
		struct open_address *o = container_of(m, struct open_address, in_open);

		if (gsi_ifindex(o->port) == ifindex &&
		    !memcmp(gsi_gid(o->port), gid, CTL_GID_BYTES))
			return o;
	}
	return NULL;
}

static void close_address(struct open_address *o)
{
	list_del(&o->in_open);
	gsi_put(o->port);
	free(o);
}

/* False: try again later. */
static bool open_one(struct cm_interfaces *i, const struct ifaddrs *a)
{
	uint8_t gid[CTL_GID_BYTES];
	struct open_address *o;
	uint32_t ifindex;

	gid_from_sockaddr(a->ifa_addr, gid);
	ifindex = gid_is_link_local(gid) ? if_nametoindex(a->ifa_name) : 0;
	o = find_open(i, gid, ifindex);
	if (o) {
		o->seen = true;
		return true;
	}
	o = calloc(1, sizeof(*o));
	if (!o || gsi_get(i->gsi, gid, ifindex, 0, &o->port)) {
		free(o);
		return false;
	}
	o->seen = true;
	list_add_tail(&i->open, &o->in_open);
	return true;
}

static bool is_wanted(const struct ifaddrs *a)
{
	return a->ifa_addr && a->ifa_flags & IFF_UP && !(a->ifa_flags & IFF_LOOPBACK) &&
	       (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6);
}

static void open_netlink(struct cm_interfaces *i)
{
	i->netlink_fd = netlink_watch();
	if (i->netlink_fd >= 0 && loop_watch(i->loop, i->netlink_fd, EPOLLIN, &i->on_change)) {
		close(i->netlink_fd);
		i->netlink_fd = -1;
	}
}

static void open_all(struct cm_interfaces *i)
{
	struct ifaddrs *all = NULL;
	bool complete = i->netlink_fd >= 0;
	struct list *m, *after;

	if (getifaddrs(&all) < 0) {
		loop_timer_arm(i->loop, &i->again, AGAIN_MS);
		return;
	}
	list_for_each(m, &i->open)
		container_of(m, struct open_address, in_open)->seen = false;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (is_wanted(a) && !open_one(i, a))
			complete = false;
	}
	freeifaddrs(all);
	list_for_each_safe(m, after, &i->open) {
		struct open_address *o = container_of(m, struct open_address, in_open);

		if (!o->seen)
			close_address(o);
	}
	if (complete)
		loop_timer_disarm(&i->again);
	else
		loop_timer_arm(i->loop, &i->again, AGAIN_MS);
}

/* What could not be had before: descriptors, ports. */
static void on_again(struct loop_timer *timer)
{
	struct cm_interfaces *i = container_of(timer, struct cm_interfaces, again);
	bool was_deaf = i->netlink_fd < 0;

	if (was_deaf)
		open_netlink(i);
	if (i->users)
		open_all(i);
	else if (i->netlink_fd < 0)
		loop_timer_arm(i->loop, &i->again, AGAIN_MS);
	if (was_deaf && i->netlink_fd >= 0)
		i->on_addresses(i); /* which may have changed meanwhile */
}

static void on_change(struct loop_source *source, uint32_t events)
{
	struct cm_interfaces *i = container_of(source, struct cm_interfaces, on_change);

	if (i->netlink_fd < 0)
		return;
	netlink_drain(i->netlink_fd);
	if (i->users)
		open_all(i);
	i->on_addresses(i);
}

void cm_interfaces_init(struct cm_interfaces *i, struct gsi *gsi, struct loop *loop,
			void (*on_addresses)(struct cm_interfaces *i))
{
	*i = (struct cm_interfaces){
		.gsi = gsi,
		.loop = loop,
		.on_addresses = on_addresses,
		.netlink_fd = -1,
	};
	i->on_change.on_ready = on_change;
	list_init(&i->open);
	loop_timer_init(&i->again, on_again);
}

void cm_interfaces_watch(struct cm_interfaces *i)
{
	if (i->watchers++)
		return;
	open_netlink(i);
	if (i->netlink_fd < 0)
		loop_timer_arm(i->loop, &i->again, AGAIN_MS);
	i->on_addresses(i);
}

void cm_interfaces_unwatch(struct cm_interfaces *i)
{
	if (--i->watchers)
		return;
	loop_timer_disarm(&i->again);
	if (i->netlink_fd < 0)
		return;
	loop_forget(i->loop, i->netlink_fd);
	close(i->netlink_fd);
	i->netlink_fd = -1;
}

void cm_interfaces_get(struct cm_interfaces *i)
{
	if (i->users++)
		return;
	cm_interfaces_watch(i);
	open_all(i);
}

void cm_interfaces_put(struct cm_interfaces *i)
{
	struct list *m, *after;

	if (--i->users)
		return;
	if (i->netlink_fd >= 0)
		loop_timer_disarm(&i->again);
	list_for_each_safe(m, after, &i->open)
		close_address(container_of(m, struct open_address, in_open));
	cm_interfaces_unwatch(i);
}

static void add_place(struct cm_interfaces *i, const struct ifaddrs *a)
{
	struct cm_place *p = &i->place[i->place_count];

	if (!a->ifa_addr || i->place_count == CM_INTERFACES_ADDRESSES)
		return;
	if (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6)
		return;
	gid_from_sockaddr(a->ifa_addr, p->gid);
	p->ifindex = if_nametoindex(a->ifa_name);
	if (p->ifindex)
		i->place_count++;
}

bool cm_interfaces_look(struct cm_interfaces *i)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return false;
	i->place_count = 0;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next)
		add_place(i, a);
	freeifaddrs(all);
	return i->place_count < CM_INTERFACES_ADDRESSES;
}

uint32_t cm_interfaces_find(const struct cm_interfaces *i, const uint8_t gid[CTL_GID_BYTES],
			    uint32_t preferred)
{
	uint32_t found = 0;

	for (unsigned n = 0; n < i->place_count; n++) {
		const struct cm_place *p = &i->place[n];

		if (memcmp(p->gid, gid, CTL_GID_BYTES))
			continue;
		if (!found || p->ifindex == preferred)
			found = p->ifindex;
	}
	return found;
}
