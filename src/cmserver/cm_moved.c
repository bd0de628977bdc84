/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_moved.h"

#include <net/if.h>
#include <stdint.h>

#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_state.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

#define NOWHERE UINT32_MAX /* the address is gone, and the program had its event */

static void check(struct cm_id *id)
{
	uint32_t now = cm_interfaces_find(&id->owner->cm->interfaces, id->own_gid, id->own_ifindex);
	char name[IF_NAMESIZE];
	struct ctl_cm_event body = { .kind = CTL_CM_ADDR_CHANGE };

	if (id->own_ifindex && id->own_ifindex != NOWHERE && id->own_ifindex != now) {
		if (!if_indextoname(id->own_ifindex, name))
			body.kind = CTL_CM_DEVICE_REMOVAL;
		cm_event_post(id, &body, 0);
		now = now ? now : NOWHERE;
	}
	if (now)
		id->own_ifindex = now;
}

static void check_all(struct cm_client *cc)
{
	struct list *m;

	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		/* A child is told at the first look after rdma_accept. */
		if (id->has_own_gid && !id->is_unaccepted)
			check(id);
	}
}

void cm_moved_look(struct cm *cm)
{
	struct list *m, *after;

	if (!cm_interfaces_look(&cm->interfaces))
		return;
	list_for_each_safe(m, after, &cm->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm)
			check_all(c->cm);
	}
}
