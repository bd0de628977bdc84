/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/mcast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct membership {
	struct list in_daemon;
	struct list in_client;
	struct client *client;
	uint8_t mgid[CTL_MGID_BYTES];
	unsigned count; /* attached so often; at least 1 */
};

static struct membership *find(struct client *c, const uint8_t *mgid)
{
	struct list *m;

	list_for_each(m, &c->memberships) {
		struct membership *s = container_of(m, struct membership, in_client);

		if (!memcmp(s->mgid, mgid, CTL_MGID_BYTES))
			return s;
	}
	return NULL;
}

static int create(struct client *c, const uint8_t *mgid)
{
	struct membership *s;

	if (c->membership_count >= MCAST_GROUPS_PER_CLIENT)
		return -ENOSPC;
	s = malloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->client = c;
	s->count = 1;
	memcpy(s->mgid, mgid, CTL_MGID_BYTES);
	list_add_tail(&c->daemon->memberships, &s->in_daemon);
	list_add_tail(&c->memberships, &s->in_client);
	c->membership_count++;
	return 0;
}

static void destroy(struct membership *s)
{
	list_del(&s->in_daemon);
	list_del(&s->in_client);
	s->client->membership_count--;
	free(s);
}

static void notify_change(struct client *cause, const uint8_t *mgid)
{
	struct ctl_mcast notice = { .header = { .type = CTL_NOTICE_MCAST_CHANGED } };

	memcpy(notice.mgid, mgid, CTL_MGID_BYTES);
	for (unsigned slot = 1; slot <= CTL_SLOT_MAX; slot++) {
		struct client *c = cause->daemon->by_slot[slot];

		if (c && c->uid == cause->uid)
			client_post_change(c, &notice, sizeof(notice));
	}
}

static void reply(struct client *c, const struct fdmsg *m, int rc)
{
	struct ctl_mcast_reply r = {
		.header = { .type = CTL_MCAST_REPLY, .seq = m->body.header.seq },
		.status = -rc,
	};

	client_post(c, &r, sizeof(r), NULL, 0);
}

void mcast_on_attach(struct client *c, struct fdmsg *m)
{
	const uint8_t *mgid = m->body.mcast.mgid;
	struct membership *s = find(c, mgid);
	int rc = 0;

	if (s)
		s->count++;
	else
		rc = create(c, mgid);
	reply(c, m, rc);
	if (!s && !rc)
		notify_change(c, mgid);
}

void mcast_on_detach(struct client *c, struct fdmsg *m)
{
	const uint8_t *mgid = m->body.mcast.mgid;
	struct membership *s = find(c, mgid);
	bool last = s && --s->count == 0;

	reply(c, m, s ? 0 : -ENOENT);
	if (last) {
		destroy(s);
		notify_change(c, mgid);
	}
}

void mcast_on_members(struct client *c, struct fdmsg *m)
{
	struct ctl_mcast_members_reply r = {
		.header = { .type = CTL_MCAST_MEMBERS_REPLY, .seq = m->body.header.seq },
	};
	struct list *n;

	list_for_each(n, &c->daemon->memberships) {
		const struct membership *s = container_of(n, struct membership, in_daemon);
		unsigned slot = s->client->slot;

		if (s->client->uid == c->uid &&
		    !memcmp(s->mgid, m->body.mcast.mgid, CTL_MGID_BYTES))
			r.slots[slot / 64] |= UINT64_C(1) << slot % 64;
	}
	client_post(c, &r, sizeof(r), NULL, 0);
}

static void drop_memberships(struct client *c, bool tells)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &c->memberships) {
		struct membership *s = container_of(m, struct membership, in_client);
		uint8_t mgid[CTL_MGID_BYTES];

		memcpy(mgid, s->mgid, sizeof(mgid));
		destroy(s);
		if (tells)
			notify_change(c, mgid);
	}
}

void mcast_on_death(struct client *c)
{
	drop_memberships(c, true);
}

void mcast_on_dismissal(struct client *c)
{
	drop_memberships(c, false);
}
