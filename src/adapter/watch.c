#include "adapter/watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adapter/adapter.h"
#include "netdev/device.h"
#include "netdev/interface.h"
#include "base/cause.h"
#include "object/context.h"

static int fd = -1;

int watch_start(void)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* What exactly was announced does not matter: the interfaces are looked at anew. */
static bool was_announced(void)
{
	char message[8192];
	bool any = false;
	ssize_t got;

	while ((got = recv(fd, message, sizeof(message), 0)) > 0 || (got < 0 && errno == ENOBUFS))
		any = true; /* ENOBUFS: more than the socket could hold */
	return any;
}

static void raise_port(struct context *context, enum ibv_event_type type, enum cause cause)
{
	struct ibv_async_event event = { .event_type = type };

	event.element.port_num = DEVICE_PORT;
	cause_report(cause, 0, "%s", context->device->interface);
	context_raise(context, &event);
}

struct scan {
	const struct interface *list;
	int count;
};

static void compare(struct context *context, void *arg)
{
	const struct scan *scan = arg;
	struct device *device = context->device;
	uint32_t gid_changes;
	bool up;

	device_update(device, scan->list, scan->count);
	lock_acquire(&device->lock);
	up = device->up;
	gid_changes = device->gid_changes;
	lock_release(&device->lock);
	if (context->port_up && !up)
		raise_port(context, IBV_EVENT_PORT_ERR, CAUSE_PORT_DOWN);
	if (context->gid_changes != gid_changes)
		raise_port(context, IBV_EVENT_GID_CHANGE, CAUSE_ADDRESS_CHANGED);
	if (!context->port_up && up)
		raise_port(context, IBV_EVENT_PORT_ACTIVE, CAUSE_PORT_UP);
	context->port_up = up;
	context->gid_changes = gid_changes;
}

void watch_run(void)
{
	struct interface *interfaces;
	struct scan scan;

	if (fd < 0 || !was_announced())
		return;
	scan.count = interface_scan(&interfaces);
	if (scan.count < 0)
		return;
	scan.list = interfaces;
	adapter_visit_contexts(compare, &scan);
	free(interfaces);
}

void watch_reset_after_fork(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}
