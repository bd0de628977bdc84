/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_requests.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_dispatch.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_state.h"
#include "cmserver/cm_teardown.h"
#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/daemon.h"
#include "event/receive_queue.h"

static struct cm_id *find_id(struct client *c, uint32_t number)
{
	struct comm_id *n = comm_ids_find(&c->cm->cm->ids, number);
	struct cm_id *id = n ? container_of(n, struct cm_id, comm_id) : NULL;

	/* A program does not know of a child before it has fetched the request. */
	return id && id->owner == c->cm && !id->listener ? id : NULL;
}

static void reply(struct client *c, const struct fdmsg *m, int rc, uint32_t number,
		  const struct cm_id *id)
{
	struct ctl_cm_reply r = {
		.header = { .type = CTL_CM_REPLY, .seq = m->body.header.seq },
		.status = -rc,
		.number = number,
	};

	if (id)
		r.local = id->binding.local;
	/* Another request shows that the process has got its last event. */
	cm_store_drop(&c->cm->store, &c->cm->given_slot);
	client_post(c, &r, sizeof(r), NULL, 0);
}

void cm_requests_reply(struct client *c, uint32_t seq, int rc)
{
	struct fdmsg m;

	m.body.header.seq = seq;
	reply(c, &m, rc, 0, NULL);
}

/*
 * Whether an earlier daemon had this request, too, and may have been killed while it served it.
 * What that daemon has done is not repeated.
 */
static bool is_repeated(const struct client *c, const struct fdmsg *m)
{
	return m->body.header.seq && m->body.header.seq == c->cm->repeated;
}

static unsigned count_channels(struct daemon *d, uid_t uid)
{
	unsigned count = 0;
	struct list *m;

	list_for_each(m, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm && c->uid == uid)
			count += c->cm->channel_count;
	}
	return count;
}

/* It had its channels with an earlier daemon, and is about to give them back. */
static bool is_returning(const struct cm_client *cc)
{
	return cc->returns && cc->client->role == CLIENT_CM_EARLY;
}

/*
 * With verbatimd --system a user gets another channel only while more are free than it has, as with
 * slots. It always gets a channel back that it had with an earlier daemon.
 */
static bool exceeds_its_share(const struct cm_client *cc, rlim_t all)
{
	struct daemon *d = cc->cm->daemon;
	unsigned used = cc->cm->channel_count;

	return d->scope == DAEMON_OF_SYSTEM && !is_returning(cc) &&
	       count_channels(d, cc->client->uid) >= all - used;
}

/*
 * Each channel needs a descriptor of the daemon: one client must leave some for others. But a
 * user's own daemon may have a lower limit than the one before, and without one of its channels a
 * process would lose all of them.
 */
static bool has_room_for_channel(const struct cm_client *cc)
{
	struct rlimit limit;

	if (cc->channel_count >= CM_CHANNELS_PER_CLIENT)
		return false;
	if (is_returning(cc) && cc->cm->daemon->scope == DAEMON_OF_USER)
		return true;
	return getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       (cc->channel_count < limit.rlim_cur / 8 &&
		cc->cm->channel_count < limit.rlim_cur / 4 &&
		!exceeds_its_share(cc, limit.rlim_cur / 4));
}

/* number: 0: a new one. */
static void open_channel(struct client *c, struct fdmsg *m, uint32_t number)
{
	struct cm_channel *ch = NULL;
	int rc;

	if (m->fds_lost)
		rc = -EMFILE;
	else if (!receive_queue_is_unix(m->fds[0], SOCK_DGRAM))
		rc = -EINVAL;
	else if (!has_room_for_channel(c->cm))
		rc = -EMFILE;
	else
		rc = cm_channel_create(c->cm, m->fds[0], number, &ch);
	if (ch)
		fdmsg_take_fd(m, 0);
	reply(c, m, rc, ch ? ch->comm_id.value : 0, NULL);
}

void cm_requests_on_create_channel(struct client *c, struct fdmsg *m)
{
	open_channel(c, m, 0);
}

void cm_requests_on_return_channel(struct client *c, struct fdmsg *m)
{
	if (m->body.cm_ask.channel)
		open_channel(c, m, m->body.cm_ask.channel);
	else
		reply(c, m, -EINVAL, 0, NULL);
}

void cm_requests_on_destroy_channel(struct client *c, struct fdmsg *m)
{
	struct cm_channel *ch = cm_channel_find(c, m->body.cm_ask.channel);

	if (ch)
		cm_teardown_channel(ch);
	reply(c, m, ch ? 0 : -ENOENT, 0, NULL);
	cm_dispatch_deliver(c->daemon->cm);
}

static bool is_space(uint32_t space)
{
	return space == CTL_CM_TCP || space == CTL_CM_UDP || space == CTL_CM_IB ||
	       space == CTL_CM_IPOIB;
}

/* As in Linux: the port space decides, and if it does not, the program. */
static enum ctl_cm_qp_type qp_type_of(const struct ctl_cm_ask *ask)
{
	switch (ask->value) {
	case CTL_CM_TCP:
		return CTL_CM_QP_RC;
	case CTL_CM_UDP:
	case CTL_CM_IPOIB:
		return CTL_CM_QP_UD;
	default:
		return (enum ctl_cm_qp_type)ask->flags;
	}
}

static bool is_qp_type(enum ctl_cm_qp_type type)
{
	return type == CTL_CM_QP_RC || type == CTL_CM_QP_UC || type == CTL_CM_QP_UD ||
	       type == CTL_CM_QP_XRC_SEND || type == CTL_CM_QP_XRC_RECV;
}

bool cm_requests_is_kind(uint32_t space, enum ctl_cm_qp_type type)
{
	return is_space(space) && is_qp_type(type);
}

static struct cm_id *find_made(const struct cm_client *cc, uint32_t seq)
{
	struct list *m;

	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->made_seq == seq)
			return id;
	}
	return NULL;
}

void cm_requests_on_create_id(struct client *c, struct fdmsg *m)
{
	const struct ctl_cm_ask *ask = &m->body.cm_ask;
	struct cm_channel *ch = cm_channel_find(c, ask->channel);
	struct cm_id *id = is_repeated(c, m) ? find_made(c->cm, ask->header.seq) : NULL;
	int rc = 0;

	if (id) {
		reply(c, m, 0, id->comm_id.value, NULL);
		return;
	}
	if (!ch)
		rc = -ENOENT;
	else if (!cm_requests_is_kind(ask->value, qp_type_of(ask)))
		rc = -EINVAL;
	else if (c->cm->id_count >= CM_IDS_PER_CLIENT)
		rc = -ENOSPC;
	else
		rc = cm_id_create(c->cm, ch, (uint16_t)ask->value, qp_type_of(ask), 0, &id);
	if (id) {
		id->made_seq = ask->header.seq;
		cm_connection_save_id(id);
	}
	reply(c, m, rc, id ? id->comm_id.value : 0, NULL);
}

void cm_requests_on_destroy_id(struct client *c, struct fdmsg *m)
{
	struct cm_id *id = find_id(c, m->body.cm_ask.id);

	if (id)
		cm_teardown_id(id);
	reply(c, m, id ? 0 : -ENOENT, 0, NULL);
	cm_dispatch_deliver(c->daemon->cm);
}

void cm_requests_on_migrate_id(struct client *c, struct fdmsg *m)
{
	struct cm_id *id = find_id(c, m->body.cm_ask.id);
	struct cm_channel *ch = cm_channel_find(c, m->body.cm_ask.channel);
	struct list *n;

	if (id && ch) {
		cm_event_move_id(id, ch);
		cm_connection_save_id(id);
		/* Requests that were not fetched yet move with the listener. */
		list_for_each(n, &id->children) {
			struct cm_id *child = container_of(n, struct cm_id, in_listener);

			cm_event_move_id(child, ch);
			cm_connection_save_id(child);
		}
	}
	reply(c, m, id && ch ? 0 : -ENOENT, 0, NULL);
}

void cm_requests_on_bind(struct client *c, struct fdmsg *m)
{
	struct cm_id *id = find_id(c, m->body.cm_bind.id);
	bool was_done = id && id->binding.bound && is_repeated(c, m);
	int rc = was_done ? 0
		 : id	  ? cm_id_bind(id, m->body.cm_bind.flags, &m->body.cm_bind.local)
			  : -ENOENT;

	if (id)
		cm_connection_save_id(id);
	reply(c, m, rc, 0, id);
}

void cm_requests_on_listen(struct client *c, struct fdmsg *m)
{
	struct cm_id *id = find_id(c, m->body.cm_ask.id);
	int rc = id ? cm_id_listen(id, m->body.cm_ask.value, m->body.cm_ask.flags) : -ENOENT;

	if (!rc)
		cm_connection_save_id(id);
	reply(c, m, rc, 0, id);
	cm_pending_on_listen(c->daemon->cm);
	cm_dispatch_deliver(c->daemon->cm);
}

/* Whether the connection is past this request already. */
static bool is_past_request(const struct cm_id *id, enum ctl_type type)
{
	if (type == CTL_CM_ACCEPT)
		return id->had_connection && !id->is_unaccepted;
	return id->had_connection && (type == CTL_CM_CONNECT || !id->connection);
}

void cm_requests_on_connect(struct client *c, struct fdmsg *m)
{
	const struct ctl_cm_request *request = &m->body.cm_request;
	struct cm_id *id = find_id(c, request->id);
	int rc;

	if (!id)
		rc = -ENOENT;
	else if (is_repeated(c, m) && is_past_request(id, request->header.type))
		rc = 0;
	else if (request->header.type == CTL_CM_CONNECT)
		rc = cm_connection_connect(id, request);
	else if (!id->connection)
		rc = -EINVAL;
	else if (request->header.type == CTL_CM_ACCEPT)
		rc = cm_connection_accept(id->connection, request);
	else
		rc = cm_connection_reject(id->connection, request);
	reply(c, m, rc, 0, id);
	cm_dispatch_deliver(c->daemon->cm);
}

void cm_requests_on_step(struct client *c, struct fdmsg *m)
{
	struct cm_id *id = find_id(c, m->body.cm_ask.id);
	bool disconnects = m->body.header.type == CTL_CM_DISCONNECT;
	int rc;

	if (!id)
		rc = -ENOENT;
	else if (!id->connection)
		rc = disconnects && id->had_connection ? 0 : -EINVAL;
	else if (m->body.header.type == CTL_CM_READY)
		rc = cm_connection_ready(id->connection);
	else if (m->body.header.type == CTL_CM_ESTABLISH)
		rc = cm_connection_establish(id->connection);
	else
		rc = cm_connection_disconnect(id->connection);
	/* A connection that has ended is disconnected. */
	if (disconnects && rc == -EINVAL && id->had_connection)
		rc = 0;
	/* A step that an earlier daemon took already has succeeded. */
	if (id && id->had_connection && is_repeated(c, m))
		rc = 0;
	/* Nothing is told of a child that was not accepted. */
	reply(c, m, rc, disconnects && id && id->is_unaccepted, NULL);
	cm_dispatch_deliver(c->daemon->cm);
}

static bool has_raised(const struct cm_id *id, uint32_t seq)
{
	struct list *m;

	list_for_each(m, &id->events) {
		if (container_of(m, struct cm_event, in_id)->made_seq == seq)
			return true;
	}
	return false;
}

void cm_requests_on_raise(struct client *c, struct fdmsg *m)
{
	const struct ctl_cm_raise *raise = &m->body.cm_raise;
	struct cm_id *id = find_id(c, raise->id);
	struct ctl_cm_event body = {
		.kind = raise->kind,
		.status = raise->status,
		.cookie = raise->cookie,
	};
	int rc = -ENOENT;

	if (id && is_repeated(c, m) && has_raised(id, raise->header.seq)) {
		reply(c, m, 0, 0, NULL);
		return;
	}
	/* The other half of the queue is for events of connections. */
	if (id && c->cm->event_count >= CM_EVENTS_PER_CLIENT / 2)
		rc = -ENOSPC;
	else if (id)
		rc = raise->kind < CTL_CM_EVENT_KINDS && raise->kind != CTL_CM_CONNECT_REQUEST
			     ? cm_event_post(id, &body, raise->header.seq)
			     : -EINVAL;
	reply(c, m, rc, 0, NULL);
}

void cm_requests_on_get_event(struct client *c, struct fdmsg *m)
{
	struct cm_channel *ch = cm_channel_find(c, m->body.cm_ask.channel);
	struct cm_event *e = ch ? cm_event_first(ch) : NULL;
	struct ctl_cm_event body = { .answer = ch ? EAGAIN : ENOENT };

	if (e) {
		body = e->body;
		body.answer = 0;
		body.id = e->id->comm_id.value;
		body.channel = ch->comm_id.value;
		cm_id_release_child(e->id);
		cm_event_give(e, m->body.header.seq);
	} else {
		cm_store_drop(&c->cm->store, &c->cm->given_slot);
	}
	body.header = (struct ctl_header){ .type = CTL_CM_EVENT, .seq = m->body.header.seq };
	client_post(c, &body, sizeof(body), NULL, 0);
	if (e && body.kind == CTL_CM_CONNECT_REQUEST) {
		cm_pending_on_room(c->daemon->cm);
		cm_dispatch_deliver(c->daemon->cm);
	}
}
