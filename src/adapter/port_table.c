/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/port_table.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "adapter/contexts.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/gid.h"
#include "udp/udp.h"

struct lock port_table_lock = LOCK_INITIALIZER;
struct port port_table[PORT_TABLE_MAX];
_Atomic uint32_t port_table_count;

static struct arena_port *shown;
static int epoll = -1;
/* Guards which sockets are in `epoll`: all, or none while `listening` is false. Innermost. */
static struct lock watch_lock = LOCK_INITIALIZER;
static bool listening GUARDED_BY(watch_lock) = true;

int port_table_init(void *arena)
{
	shown = arena_ports(arena);
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll < 0 ? -errno : 0;
}

int port_table_epoll(void)
{
	return epoll;
}

/*
 * An address has one socket, whichever interface has it: with two entries, two threads would take a
 * QP's packets from it at the same time, out of order. Groups are joined on an interface.
 */
static bool is_on(const struct port *port, uint32_t ifindex)
{
	return port->ifindex == ifindex || (!port->is_group && !gid_is_link_local(port->gid));
}

struct port *port_table_find(const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex, bool is_group)
{
	uint32_t count = atomic_load_explicit(&port_table_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		if (port_table[i].is_group == is_group &&
		    atomic_load_explicit(&port_table[i].wire, memory_order_acquire) &&
		    !memcmp(port_table[i].gid, gid, WIRE_GID_BYTES) &&
		    is_on(&port_table[i], ifindex))
			return &port_table[i];
	return NULL;
}

static void show(const struct port *port)
{
	struct arena_port *entry = &shown[port - port_table];
	char text[GID_TEXT_BYTES];

	if (port - port_table >= ARENA_PORTS)
		return;
	if (!atomic_load_explicit(&port->wire, memory_order_relaxed)) {
		entry->address[0] = 0;
		return;
	}
	entry->ifindex = port->ifindex;
	entry->is_group = port->is_group;
	snprintf(entry->address, sizeof(entry->address), "%s", gid_text(port->gid, text));
}

static int watch(int how, const struct wire_port *wire, uint32_t events)
{
	struct epoll_event event = { .events = events };

	return epoll_ctl(epoll, how, udp_fd(wire), &event) ? -errno : 0;
}

/* False: it failed for some. */
static bool watch_all(bool on) REQUIRES(watch_lock)
{
	bool all = true;

	for (uint32_t i = 0; i < port_table_count; i++) {
		struct wire_port *wire =
			atomic_load_explicit(&port_table[i].wire, memory_order_acquire);

		if (wire && port_table[i].watched != on &&
		    !watch(on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, wire, EPOLLIN))
			port_table[i].watched = on;
		all &= !wire || port_table[i].watched == on;
	}
	return all;
}

/* EPOLL_CTL_DEL, because even a disarmed socket in epoll costs the sender of each packet a call. */
bool port_table_listen(bool on)
{
	bool done;

	lock_acquire(&watch_lock);
	done = watch_all(on);
	if (!done)
		watch_all(false);
	listening = on && done;
	lock_release(&watch_lock);
	return done;
}

/* After the port is in the table: a thread that waiting packets wake has to find it. */
static void watch_new(struct port *port, const struct wire_port *wire) REQUIRES(watch_lock)
{
	if (listening)
		watch(EPOLL_CTL_MOD, wire, EPOLLIN);
	else
		watch(EPOLL_CTL_DEL, wire, 0);
	port->watched = listening;
}

int port_table_add(struct wire_port *wire, const uint8_t gid[WIRE_GID_BYTES], uint32_t ifindex,
		   bool is_group, const char *device) REQUIRES(port_table_lock)
{
	uint32_t count = port_table_count, i = 0;
	struct arena_traffic *traffic;
	struct port *port;
	int error;

	while (i < count && !(is_group && port_table[i].is_group && !port_table[i].wire &&
			      !port_table[i].closing))
		i++;
	if (i == PORT_TABLE_MAX)
		return -ENOSPC;
	traffic = contexts_take_traffic(device);
	if (traffic)
		udp_count_in(wire, traffic);
	lock_acquire(&watch_lock);
	error = watch(EPOLL_CTL_ADD, wire, 0);
	if (error) {
		lock_release(&watch_lock);
		contexts_give_traffic_back(traffic);
		return error;
	}
	port = &port_table[i];
	memcpy(port->gid, gid, WIRE_GID_BYTES);
	port->ifindex = ifindex;
	if (i == count) {
		port->is_group = is_group;
		lock_init(&port->lock);
	}
	port->joins = is_group;
	port->in_vain = PORT_COLD_LOOKS;
	port->trusted_ns = clock_now_ns() + PORT_TRUST_NS;
	port->traffic = traffic;
	atomic_store_explicit(&port->wire, wire, memory_order_release); /* PORT */
	show(port);
	if (i == count)
		atomic_store_explicit(&port_table_count, count + 1, memory_order_release);
	watch_new(port, wire);
	lock_release(&watch_lock);
	return 0;
}

/* ENXIO: there is no such interface; other errors say nothing of it. */
static bool is_gone(uint32_t ifindex)
{
	char name[IF_NAMESIZE];

	return !if_indextoname(ifindex, name) && errno == ENXIO;
}

bool port_table_is_stranded(const struct port *port)
{
	return !port->is_group && port->ifindex && !gid_is_link_local(port->gid) &&
	       is_gone(port->ifindex);
}

void port_table_move(struct port *port, uint32_t ifindex)
{
	lock_acquire(&port_table_lock);
	udp_move(port->wire, ifindex);
	port->ifindex = ifindex;
	show(port);
	lock_release(&port_table_lock);
}

struct wire_port *port_table_remove(struct port *port)
{
	struct wire_port *wire = port->wire;

	port->closing = true;
	atomic_store_explicit(&port->wire, NULL, memory_order_release);
	show(port);
	return wire;
}

void port_table_close(struct port *port, struct wire_port *wire)
{
	lock_acquire(&port->lock);
	lock_release(&port->lock); /* no thread receives from it any more */
	lock_acquire(&watch_lock);
	if (port->watched)
		watch(EPOLL_CTL_DEL, wire, 0);
	lock_release(&watch_lock);
	udp_close(wire);
	lock_acquire(&port_table_lock);
	contexts_give_traffic_back(port->traffic);
	port->closing = false;
	lock_release(&port_table_lock);
}

void port_table_reset_after_fork(void)
{
	lock_init(&port_table_lock);
	lock_acquire_in_child(&watch_lock);
	listening = true;
	lock_release(&watch_lock);
	for (int i = 0; i < PORT_TABLE_MAX; i++) {
		struct wire_port *wire = port_table[i].wire;

		/* only looked at, most entries take no memory: port_table_add sets the rest */
		if (!wire)
			continue;
		port_table[i].wire = NULL;
		udp_close(wire);
	}
	port_table_count = 0;
	if (epoll >= 0)
		close(epoll);
	epoll = -1;
	shown = NULL;
}
