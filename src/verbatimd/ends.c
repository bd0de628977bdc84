/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/ends.h"

#include "cmserver/cm.h"
#include "daemon/client.h"
#include "daemon/counts.h"
#include "daemon/links.h"
#include "daemon/mcast.h"
#include "daemon/ports.h"
#include "daemon/slots.h"

/*
 * A process has one socket for its slot and another for its connections, whose end verbatimd may
 * see later, or have seen without a decision yet (cm_on_hang_up). Peers have to learn of the end of
 * a connection before that of the QP (links_on_death): a program may destroy the identifier because
 * requests were flushed, and then would get no event.
 */
static void end_connections(struct client *dead)
{
	bool has_ended = client_has_ended(dead);
	struct list *m, *after;

	list_for_each_safe(m, after, &dead->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c == dead || !c->cm || c->pid != dead->pid || !c->pid)
			continue;
		if (!has_ended && !c->has_hung_up)
			continue;
		cm_on_death(c);
		client_disconnect(c, NULL);
	}
}

void ends_on_death(struct client *c)
{
	if (c->role == CLIENT_PROCESS)
		end_connections(c);
	cm_on_death(c);
	ports_on_death(c);
	counts_on_death(c);
	slots_on_death(c);
	links_on_death(c);
	mcast_on_death(c);
}

void ends_on_dismissal(struct client *c)
{
	links_on_dismissal(c);
	mcast_on_dismissal(c);
	cm_on_death(c);
}
