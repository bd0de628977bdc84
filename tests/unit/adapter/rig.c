/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include <cmocka.h>

#include "../udp/net.h"
#include "adapter/contexts.h"
#include "ctl/client.h"
#include "roce/roce.h"
#include "udp/udp.h"

#define ARENA_ROOM (2u << 20)

int rig_port_error, rig_epoll_error;
unsigned rig_port_calls, rig_port_asks;
enum cause rig_cause;
_Atomic uint32_t rig_arrivals;
void (*rig_on_arrival)(const struct wire_arrival *arrival);

int __wrap_ctl_port(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex,
		    int *fd, char *why, size_t why_len);
int __wrap_ctl_port(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex,
		    int *fd, char *why, size_t why_len)
{
	rig_port_calls++;
	if (rig_port_error)
		return rig_port_error;
	*fd = net_bind(gid, WIRE_UDP_PORT);
	return *fd < 0 ? -errno : 0;
}

int __wrap_ctl_port_ask(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex);
int __wrap_ctl_port_ask(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES], unsigned ifindex)
{
	rig_port_asks++;
	return rig_port_error;
}

int __wrap_ctl_mcast_attach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES]);
int __wrap_ctl_mcast_attach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES])
{
	return 0;
}

int __wrap_ctl_mcast_detach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES]);
int __wrap_ctl_mcast_detach(struct ctl_client *c, const uint8_t gid[CTL_GID_BYTES])
{
	return 0;
}

void __wrap_roce_receive(const struct wire_arrival *arrival);
void __wrap_roce_receive(const struct wire_arrival *arrival)
{
	atomic_fetch_add(&rig_arrivals, 1);
	if (rig_on_arrival)
		rig_on_arrival(arrival);
}

void __wrap_cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...);
void __wrap_cause_report(enum cause cause, uint32_t qpn, const char *fmt, ...)
{
	rig_cause = cause;
}

int __real_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int how, int fd, struct epoll_event *event)
{
	if (how == EPOLL_CTL_ADD && rig_epoll_error) {
		errno = rig_epoll_error;
		return -1;
	}
	return __real_epoll_ctl(epoll, how, fd, event);
}

void rig_init(void)
{
	if (net_init())
		return;
	fprintf(stderr, "skipped: no network namespaces\n");
	exit(77);
}

int rig_setup(void **state)
{
	static void *arena;

	if (!arena)
		arena = aligned_alloc(4096, ARENA_ROOM);
	memset(arena, 0, ARENA_ROOM);
	rig_port_error = rig_epoll_error = 0;
	rig_port_calls = rig_port_asks = 0;
	rig_cause = CAUSE_NONE;
	rig_arrivals = 0;
	rig_on_arrival = NULL;
	contexts_init(arena);
	return ports_init(NULL, arena);
}

int rig_teardown(void **state)
{
	ports_reset_after_fork();
	return 0;
}

void rig_address(unsigned which, uint8_t gid[WIRE_GID_BYTES])
{
	memset(gid, 0, WIRE_GID_BYTES);
	gid[10] = gid[11] = 0xff;
	gid[12] = 10;
	gid[13] = 78;
	gid[14] = (uint8_t)(which >> 8);
	gid[15] = (uint8_t)which;
}

static void change_address(const char *how, unsigned which)
{
	char command[96];

	snprintf(command, sizeof(command), "ip address %s 10.78.%u.%u/32 dev lo", how, which >> 8,
		 which & 255);
	assert_int_equal(system(command), 0);
}

void rig_add_address(unsigned which)
{
	change_address("add", which);
}

void rig_remove_address(unsigned which)
{
	change_address("del", which);
}

struct context *rig_context(unsigned first, unsigned count)
{
	struct context *context = calloc(1, sizeof(*context));
	struct device *device = calloc(1, sizeof(*device));

	assert_true(context && device && count <= DEVICE_GIDS);
	lock_init(&device->lock);
	device->references = 1;
	device->ifindex = if_nametoindex("lo");
	snprintf(device->ib.name, sizeof(device->ib.name), "vrb_test");
	for (unsigned i = 0; i < count; i++)
		rig_address(first + i, device->gid[i].raw);
	context->device = device;
	return context;
}

unsigned rig_send(struct wire_port *from, const uint8_t to[WIRE_GID_BYTES], unsigned count)
{
	struct wire_flow flow = { .port = from, .sender = udp_sender(from, 0), .hop_limit = 64 };
	struct wire_packet packets[WIRE_BURST];
	unsigned sent = 0;

	memset(packets, 0, count * sizeof(*packets));
	for (unsigned i = 0; i < count; i++)
		packets[i].header_bytes = 20 + 4 * (i % 3);
	memcpy(flow.remote, to, WIRE_GID_BYTES);
	ports_send(&flow, packets, count, &sent);
	return sent;
}

uint64_t rig_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void rig_sleep_us(unsigned us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000l };

	while (us && nanosleep(&t, &t))
		;
}

struct wire_port *rig_open_address(unsigned which)
{
	struct wire_port *port = NULL;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	assert_int_equal(port_open(gid, 0, "vrb_test", &port), 0);
	return port;
}

int rig_try_address(unsigned which)
{
	struct wire_port *port;
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	return port_open(gid, 0, "vrb_test", &port);
}

unsigned rig_send_to(struct wire_port *from, unsigned which, unsigned count)
{
	uint8_t gid[WIRE_GID_BYTES];

	rig_address(which, gid);
	return rig_send(from, gid, count);
}

bool rig_is_readable_within(int ms)
{
	struct pollfd p = { .fd = port_table_epoll(), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

bool rig_is_readable(void)
{
	return rig_is_readable_within(1000);
}

void rig_take_all(void)
{
	while (ports_progress(0, PORTS_ALL) > 0)
		;
	assert_false(rig_is_readable_within(0));
}
