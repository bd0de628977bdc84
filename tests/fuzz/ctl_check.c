/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_state.h"
#include "ctl_host.h"
#include "ctl_peer.h"
#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/mcast.h"

#define TURNS_MAX 2000

void check_require(bool holds, const char *text, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
	abort();
}

void check_rest(struct daemon *d)
{
	unsigned turns = 0;

	do {
		host_event_count = 0;
		loop_turn(&d->loop);
		client_free_disconnecting(d);
		require(turns++ < TURNS_MAX);
	} while (host_event_count);
}

static unsigned count(const struct list *l)
{
	unsigned n = 0;
	struct list *m;

	list_for_each(m, l)
		n++;
	return n;
}

/*
 * ------------------------------------------------------------------------------------------ The
 * tables of connection management.
 */

static void check_channel(struct cm_channel *ch)
{
	struct list *m;

	require(comm_ids_find(&ch->owner->cm->channels, ch->comm_id.value) == &ch->comm_id);
	require(count(&ch->events) == ch->event_count);
	list_for_each(m, &ch->events) {
		const struct cm_event *e = container_of(m, struct cm_event, in_channel);

		require(e->channel == ch && e->id->channel == ch);
	}
}

static void check_id(struct cm_id *id)
{
	struct list *m;

	require(comm_ids_find(&id->owner->cm->ids, id->comm_id.value) == &id->comm_id);
	require(id->channel->owner == id->owner);
	require(!id->connection || id->connection->id == id);
	require(!id->connection || !id->binding.listening);
	require(id->binding.listening || !id->gsi);
	require(!id->listener || (id->listener->binding.listening && list_empty(&id->children)));
	list_for_each(m, &id->children)
		require(container_of(m, struct cm_id, in_listener)->listener == id);
}

static void check_cm_client(const struct cm_client *cc)
{
	unsigned events = 0, of_ids = 0, uses = 0;
	struct list *m;

	require(count(&cc->ids) == cc->id_count && cc->id_count <= CM_IDS_PER_CLIENT);
	require(count(&cc->channels) == cc->channel_count);
	list_for_each(m, &cc->channels) {
		struct cm_channel *ch = container_of(m, struct cm_channel, in_client);

		check_channel(ch);
		events += ch->event_count;
		uses += count(&ch->ids);
	}
	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		check_id(id);
		of_ids += count(&id->events);
	}
	require(events == cc->event_count && events == of_ids && uses == cc->id_count);
	require(events <= CM_EVENTS_PER_CLIENT);
}

void check_connections(const struct daemon *d)
{
	const struct cm *cm = d->cm;
	struct list *m;

	for (size_t i = 0; i < cm->connections.table.bucket_count; i++) {
		list_for_each(m, &cm->connections.table.buckets[i]) {
			struct comm_id *n = container_of(m, struct comm_id, entry.in_bucket);
			struct cm_connection *c = container_of(n, struct cm_connection, comm_id);

			require(c->end.state != CONNECTION_CLOSED);
			require(!c->id || c->id->connection == c);
			require(!c->id == c->end.abandoned);
			require(c->id || c->end.deadline_ns);
			require(c->is_local == !c->gsi);
			require(!c->timer.place == !c->end.deadline_ns);
			if (c->timer.place)
				require(cm->timers.heap.at[c->timer.place - 1] == &c->timer);
		}
	}
	for (size_t i = 1; i < cm->timers.heap.count; i++)
		require(cm->timers.heap.at[(i - 1) / 2]->deadline_ns <=
			cm->timers.heap.at[i]->deadline_ns);
}

/*
 * ------------------------------------------------------------------------------------------
 * The rest.
 */

static void check_client(struct daemon *d, const struct client *c)
{
	require(!c->disconnecting && c->daemon == d);
	require(count(&c->send_queue.messages) == c->send_queue.count &&
		c->send_queue.count <= SEND_QUEUE_MAX);
	require(count(&c->memberships) == c->membership_count &&
		c->membership_count <= MCAST_GROUPS_PER_CLIENT);
	require(!c->cm == (c->role != CLIENT_CM));
	require(!c->slot == (c->role != CLIENT_PROCESS));
	require(!c->slot || d->by_slot[c->slot] == c);
	if (c->cm)
		check_cm_client(c->cm);
}

void check_books(struct daemon *d)
{
	unsigned slots = 0, sessions = 0, channels = 0;
	struct list *m;

	require(list_empty(&d->disconnecting));
	list_for_each(m, &d->clients) {
		const struct client *c = container_of(m, struct client, in_daemon);

		check_client(d, c);
		slots += c->slot != 0;
		sessions += c->cm != NULL;
		channels += c->cm ? c->cm->channel_count : 0;
	}
	require(slots + sessions == d->idle_exit.users);
	require(channels == d->cm->channel_count);
	require(count(&d->port_groups) == d->port_group_count);
	require(list_empty(&d->cm->in_flight));
	require(count(&d->cm->pending->listener.requests) + count(&d->cm->pending->room.requests) ==
		d->cm->pending->count);
	require(d->cm->pending->count <= CM_PENDING_MAX);
}

void check_event_fds(struct daemon *d, const struct peer *p)
{
	for (unsigned i = 0; i < PEER_NUMBERS && !p->meddles; i++) {
		struct comm_id *n = comm_ids_find(&d->cm->channels, p->channels[i]);
		const struct cm_channel *ch =
			n ? container_of(n, struct cm_channel, comm_id) : NULL;
		char byte;

		if (ch && p->ends[i] >= 0)
			require((recv(p->ends[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0) ==
				(ch->event_count > 0));
	}
}

/*
 * ------------------------------------------------------------------------------------------ Two
 * well-behaved peers make a connection.
 */

static uint32_t await_event(struct daemon *d, struct peer *p, enum ctl_cm_event_kind kind)
{
	struct ctl_cm_ask get = {
		.header = { CTL_CM_GET_EVENT, 9 },
		.channel = p->channels[(p->channel_count - 1) % PEER_NUMBERS],
	};

	p->has_event = false;
	peer_send(p, &get, sizeof(get), NULL, 0);
	check_rest(d);
	peer_read(p);
	require(p->has_event && p->event.kind == kind);
	p->has_event = false;
	return p->event.id;
}

static void send_request(struct daemon *d, struct peer *p, enum ctl_type type, uint32_t id)
{
	struct ctl_cm_request m = { .header = { type, 9 }, .id = id, .end = { .qpn = 6 } };
	struct ctl_cm_ask a = { .header = { type, 9 }, .id = id };

	if (type == CTL_CM_ACCEPT)
		peer_send(p, &m, sizeof(m), NULL, 0);
	else
		peer_send(p, &a, sizeof(a), NULL, 0);
	check_rest(d);
	peer_read(p);
	require(p->reply.header.type == CTL_CM_REPLY && !p->reply.cm_reply.status);
}

void check_connection(struct daemon *d, struct peer *passive, struct peer *active,
		      const struct host_address *at)
{
	struct ctl_cm_address local = { .family = at->family, .ifindex = at->ifindex };
	struct ctl_cm_address remote;
	uint32_t child, id;

	memcpy(local.gid, at->gid, sizeof(local.gid));
	require(peer_is_there(passive) && peer_is_there(active));
	peer_listen(passive, &local, CTL_CM_TCP);
	require(!passive->reply.cm_reply.status);
	remote = passive->reply.cm_reply.local;
	require(remote.port);
	peer_connect(active, &local, &remote, CTL_CM_TCP);
	require(!active->reply.cm_reply.status);
	child = await_event(d, passive, CTL_CM_CONNECT_REQUEST);
	send_request(d, passive, CTL_CM_ACCEPT, child);
	id = await_event(d, active, CTL_CM_CONNECT_RESPONSE);
	send_request(d, active, CTL_CM_READY, id);
	await_event(d, passive, CTL_CM_ESTABLISHED);
	send_request(d, active, CTL_CM_DISCONNECT, id);
	await_event(d, passive, CTL_CM_DISCONNECTED);
	send_request(d, passive, CTL_CM_DISCONNECT, child);
	await_event(d, active, CTL_CM_DISCONNECTED);
	check_books(d);
	check_connections(d);
}
