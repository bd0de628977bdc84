/* SPDX-License-Identifier: BSD-2-Clause */
#include "adapter/port_events.h"

#include <stdlib.h>

#include "adapter/contexts.h"
#include "base/cause.h"
#include "netdev/device.h"
#include "netdev/interface.h"
#include "netdev/watch.h"
#include "object/context.h"

#define NEVER	 UINT64_MAX
#define AGAIN_NS 1000000000ull

/* When interfaces are read although no change is announced: the last time that failed. */
static uint64_t again_ns = NEVER;

struct scan {
	const struct interface *list;
	int count;
};

static void raise_port(struct context *context, enum ibv_event_type type, enum cause cause)
{
	struct ibv_async_event event = { .event_type = type };

	event.element.port_num = DEVICE_PORT;
	cause_report(cause, 0, "%s", context->device->interface);
	context_raise(context, &event, NULL);
}

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

/* The announcement's contents do not matter: all interfaces are read anew. */
bool port_events_poll(uint64_t now)
{
	struct interface *interfaces;
	struct scan scan;

	if (!watch_take() && now < again_ns)
		return false;
	scan.count = interface_scan(&interfaces);
	again_ns = scan.count < 0 ? now + AGAIN_NS : NEVER;
	if (scan.count < 0)
		return false;
	scan.list = interfaces;
	contexts_visit(compare, &scan);
	contexts_show_addresses();
	free(interfaces);
	return true;
}

uint64_t port_events_due_ns(void)
{
	return again_ns;
}
