/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/ports.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "adapter/contexts.h"
#include "adapter/group.h"
#include "adapter/listening.h"
#include "adapter/path.h"
#include "adapter/port_open.h"
#include "adapter/wakeup.h"
#include "base/cause.h"
#include "base/gid.h"
#include "netdev/device.h"
#include "roce/roce.h"
#include "udp/udp.h"

/* In the epoll descriptor of the ports, like raw sockets. */
static int watch_streams(const struct streams_env *env)
{
	struct epoll_event event = { .events = EPOLLIN };
	int error = streams_init(env);

	if (!error && epoll_ctl(port_table_epoll(), EPOLL_CTL_ADD, streams_epoll(), &event) < 0)
		error = -errno;
	return error;
}

int ports_init(struct ctl_client *ctl, void *arena)
{
	static const struct streams_env env = {
		.wake = wakeup_send,
		.send_begin = listening_on_send_begin,
		.send_end = listening_on_send_end,
	};
	int error;

	port_open_init(ctl);
	error = port_table_init(arena);
	return error ? error : watch_streams(&env);
}

uint32_t ports_group_interface(struct device *device)
{
	uint32_t ifindex;

	lock_acquire(&device->lock);
	ifindex = device->loopback && !path_is_forced() ? 0 : device->ifindex;
	lock_release(&device->lock);
	return ifindex;
}

static int open_group(const uint8_t group[WIRE_GID_BYTES], uint32_t ifindex, const char *device)
	REQUIRES(port_table_lock)
{
	struct wire_port *wire;
	int error = -udp_open_group(group, ifindex, &wire);

	if (error)
		return error;
	error = -port_table_add(wire, group, ifindex, true, device);
	if (error)
		udp_close(wire);
	return error;
}

static int join(struct device *device, uint32_t ifindex, const union ibv_gid *spelled)
{
	uint8_t group[WIRE_GID_BYTES];
	struct port *port;
	int error = 0;

	if (!ifindex)
		return 0;
	gid_canonical(group, spelled->raw);
	lock_acquire(&port_table_lock);
	port = port_table_find(group, ifindex, true);
	if (port)
		port->joins++;
	else
		error = open_group(group, ifindex, device->ib.name);
	lock_release(&port_table_lock);
	return error;
}

int ports_join(struct device *device, uint32_t ifindex, const union ibv_gid *group)
{
	int error = join(device, ifindex, group);
	char text[GID_TEXT_BYTES];

	if (error)
		cause_report(CAUSE_GROUP_REFUSED, 0, "%s on %s: %s", gid_text(group->raw, text),
			     device->ib.name, strerror(error));
	return error;
}

void ports_leave(uint32_t ifindex, const union ibv_gid *spelled)
{
	struct wire_port *wire = NULL;
	uint8_t group[WIRE_GID_BYTES];
	struct port *port;

	if (!ifindex)
		return;
	gid_canonical(group, spelled->raw);
	lock_acquire(&port_table_lock);
	port = port_table_find(group, ifindex, true);
	if (port && --port->joins == 0)
		wire = port_table_remove(port);
	lock_release(&port_table_lock);
	if (wire)
		port_table_close(port, wire);
}

/*
 * The new membership first: a datagram that comes meanwhile is received once. False: to be tried
 * again; not if the new interface is gone as well, as the next one is announced.
 */
static bool follow(const struct group_member *member, bool changed)
{
	uint32_t ifindex = ports_group_interface(member->device);
	int error;

	if (ifindex == member->ifindex)
		return true;
	error = (changed ? ports_join : join)(member->device, ifindex, &member->gid);
	if (!error)
		ports_leave(group_move(member, ifindex) ? member->ifindex : ifindex, &member->gid);
	return !error || error == ENODEV;
}

struct search {
	const struct port *port;
	uint32_t ifindex; /* another interface that has its address; 0: none */
};

static bool has_address(const struct device *device, const uint8_t gid[WIRE_GID_BYTES])
{
	for (int i = 0; i < DEVICE_GIDS; i++)
		if (!memcmp(device->gid[i].raw, gid, WIRE_GID_BYTES))
			return true;
	return false;
}

/* A device that is down keeps its addresses, so one that is up comes first. */
static void look_for_address(struct context *context, void *arg)
{
	struct device *device = context->device;
	struct search *search = arg;

	lock_acquire(&device->lock);
	if ((device->up || !search->ifindex) && device->ifindex != search->port->ifindex &&
	    has_address(device, search->port->gid))
		search->ifindex = device->ifindex;
	lock_release(&device->lock);
}

/* Without port_table_lock, which a thread holds that takes the contexts' lock. */
static void follow_addresses(void)
{
	uint32_t count = atomic_load_explicit(&port_table_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		struct search search = { .port = &port_table[i] };

		if (!port_table_is_stranded(&port_table[i]))
			continue;
		contexts_visit(look_for_address, &search);
		if (search.ifindex)
			port_table_move(&port_table[i], search.ifindex);
	}
}

bool ports_follow_interfaces(bool changed)
{
	struct group_member member;
	unsigned at = 0;
	bool done = true;

	follow_addresses();
	while (group_next_joined(&at, &member)) {
		done &= follow(&member, changed);
		device_put(member.device);
	}
	return done;
}

/* A datagram from this host has reached its members through shared memory. */
static void receive_for_group(const struct wire_arrival *arrival)
{
	union ibv_gid source;

	memcpy(source.raw, arrival->flow->remote, sizeof(source.raw));
	if (!path_may_be_local(&source))
		roce_receive(arrival);
}

static int receive(struct port *port, uint64_t now) REQUIRES(port->lock)
{
	struct wire_port *wire = atomic_load_explicit(&port->wire, memory_order_acquire); /* PORT */

	return wire ? udp_receive(wire, now, port->is_group ? receive_for_group : roce_receive) : 0;
}

static int look_at(struct port *port, uint64_t now)
{
	uint32_t in_vain;
	int got;

	if (!lock_try(&port->lock))
		return -EBUSY;
	got = receive(port, now);
	lock_release(&port->lock);
	in_vain = atomic_load_explicit(&port->in_vain, memory_order_relaxed);
	if (got > 0)
		atomic_store_explicit(&port->in_vain, 0, memory_order_relaxed);
	else if (in_vain < PORT_COLD_LOOKS)
		atomic_store_explicit(&port->in_vain, in_vain + 1, memory_order_relaxed);
	return got;
}

int ports_progress(uint64_t now, enum ports_look which)
{
	uint32_t count = atomic_load_explicit(&port_table_count, memory_order_acquire);
	bool busy = false;
	int all = 0;

	for (uint32_t i = 0; i < count; i++) {
		int got;

		if (which == PORTS_BUSY_ONES &&
		    atomic_load_explicit(&port_table[i].in_vain, memory_order_relaxed) >=
			    PORT_COLD_LOOKS)
			continue;
		got = look_at(&port_table[i], now);
		if (got > 0)
			all += got;
		busy |= got == -EBUSY;
	}
	if (raw_sockets_any())
		all += raw_sockets_progress();
	if (streams_any())
		all += streams_progress(which == PORTS_ALL);
	return all ? all : busy ? -EBUSY : 0;
}

/* Packets that are left after so many looks arrived after the call. */
#define CATCH_UP_LOOKS 16

bool ports_catch_up(uint64_t now)
{
	uint32_t count = atomic_load_explicit(&port_table_count, memory_order_acquire);
	bool any = false;

	for (uint32_t i = 0; i < count; i++) {
		lock_acquire(&port_table[i].lock);
		for (int j = 0; j < CATCH_UP_LOOKS && receive(&port_table[i], now) > 0; j++)
			any = true;
		lock_release(&port_table[i].lock);
	}
	return any;
}

/* An answer is likely to come, so each poll looks at the port again. */
static void warm_up(const struct wire_port *wire)
{
	uint32_t count = atomic_load_explicit(&port_table_count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (atomic_load_explicit(&port_table[i].wire, memory_order_relaxed) == wire) {
			if (atomic_load_explicit(&port_table[i].in_vain, memory_order_relaxed))
				atomic_store_explicit(&port_table[i].in_vain, 0,
						      memory_order_relaxed);
			return;
		}
}

enum wire_result ports_send(const struct wire_flow *flow, const struct wire_packet *packets,
			    unsigned count, unsigned *sent)
{
	enum wire_result result;

	warm_up(flow->port);
	listening_on_send_begin();
	result = udp_send(flow, packets, count, sent);
	listening_on_send_end();
	return result;
}

bool ports_sends_gso(const struct wire_flow *flow)
{
	return udp_sends_gso(flow);
}

void ports_reset_after_fork(void)
{
	port_open_reset_after_fork();
	port_table_reset_after_fork();
	streams_reset_after_fork();
}
