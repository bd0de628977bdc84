/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_moved.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "base/gid.h"
#include "cmserver/cm.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_id.h"
#include "daemon/daemon.h"

#define NOWHERE UINT32_MAX /* the address is gone, and the program was told */

/* The interface of the address; 0: none. A link-local address may have several. */
static uint32_t find(const struct cm_places *places, const uint8_t *gid, uint32_t preferred)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < places->count; i++) {
		const struct cm_place *p = &places->place[i];

		if (memcmp(p->gid, gid, CTL_GID_BYTES))
			continue;
		if (!found || p->ifindex == preferred)
			found = p->ifindex;
	}
	return found;
}

static void add(struct cm_places *places, const struct ifaddrs *a)
{
	struct cm_place *p = &places->place[places->count];

	if (!a->ifa_addr || places->count == CM_MOVED_ADDRESSES)
		return;
	if (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6)
		return;
	gid_from_sockaddr(a->ifa_addr, p->gid);
	p->ifindex = if_nametoindex(a->ifa_name);
	if (p->ifindex)
		places->count++;
}

static void check(struct cm_id *id, const struct cm_places *places)
{
	uint32_t now = find(places, id->own_gid, id->own_ifindex);
	char name[IF_NAMESIZE];
	struct ctl_cm_event body = { .kind = CTL_CM_ADDR_CHANGE };

	if (id->own_ifindex && id->own_ifindex != NOWHERE && id->own_ifindex != now) {
		if (!if_indextoname(id->own_ifindex, name))
			body.kind = CTL_CM_DEVICE_REMOVAL;
		cm_channel_post(id, &body, 0);
		now = now ? now : NOWHERE;
	}
	if (now)
		id->own_ifindex = now;
}

static void check_all(struct cm_client *cc, const struct cm_places *places)
{
	struct list *m;

	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->has_own_gid)
			check(id, places);
	}
}

void cm_moved_look(struct cm *cm)
{
	struct ifaddrs *all;
	struct list *m, *after;

	if (getifaddrs(&all) < 0)
		return;
	cm->places.count = 0;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next)
		add(&cm->places, a);
	freeifaddrs(all);
	/* There may be more addresses than were looked at: one that is missing may be among them.
	 */
	if (cm->places.count == CM_MOVED_ADDRESSES)
		return;
	list_for_each_safe(m, after, &cm->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm)
			check_all(c->cm, &cm->places);
	}
}

void cm_moved_bind(struct cm_id *id, const uint8_t gid[CTL_GID_BYTES])
{
	if (gid_is_loopback(gid))
		return;
	memcpy(id->own_gid, gid, sizeof(id->own_gid));
	id->has_own_gid = true;
	/* An address that is new since the last look is found at the next one. */
	id->own_ifindex = find(&id->owner->cm->places, gid, id->binding.local.ifindex);
}
