/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_address.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_end.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_local.h"
#include "cmserver/cm_state.h"
#include "ctl/deadline.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

#define LAST_REJ_NS INT64_C(3000000000) /* how long a REJ waits for its port: as long as a DREQ */

/*
 * ------------------------------------------------------------------------------------------
 * Out.
 */

void cm_connection_save_id(struct cm_id *id)
{
	const struct cm_connection *c = id->connection;
	struct cm_record_id r;

	/* The process can read the record's padding, too. */
	memset(&r, 0, sizeof(r));
	r.kind = CM_RECORD_ID;
	r.number = id->comm_id.value;
	r.channel = id->channel->comm_id.value;
	r.made_seq = id->made_seq;
	r.space = id->binding.space;
	r.qp_type = id->qp_type;
	r.raised = id->raised;
	r.backlog = id->backlog;
	r.bind_flags = id->binding.flags;
	r.is_bound = id->binding.bound;
	r.is_listening = id->binding.listening;
	r.had_connection = id->had_connection;
	r.is_unaccepted = id->is_unaccepted;
	r.local = id->binding.local;
	if (c) {
		r.has_connection = 1;
		r.is_local = c->is_local;
		r.other_session = c->other_session;
		r.is_ud = c->is_ud;
		memcpy(r.local_gid, c->local_gid, sizeof(r.local_gid));
		memcpy(r.remote_gid, c->remote_gid, sizeof(r.remote_gid));
		r.ifindex = c->ifindex;
		connection_save(&c->end, &r.end);
	}
	cm_store_put(&id->owner->store, &id->slot, &r, sizeof(r));
}

static void on_send(struct connection *end, const struct ibcm_message *m)
{
	struct cm_connection *c = container_of(end, struct cm_connection, end);

	/*
	 * Saved before it is sent: the next daemon is to repeat this REQ, not to send another one.
	 */
	if (c->id && (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ))
		cm_connection_save_id(c->id);
	/*
	 * While the port is not open yet, the message is lost, as it might be on a wire. It is
	 * repeated once the port is open (cm_return.h).
	 */
	if (c->is_local)
		cm_local_send(&c->cm->in_flight, c->uid, c->id ? c->id->owner->session : 0,
			      c->local_gid, c->remote_gid, c->ifindex, m);
	else if (c->gsi)
		gsi_send(c->gsi, c->remote_gid, m);
}

static void on_raise(struct connection *end, enum connection_event event,
		     const struct ibcm_message *m)
{
	struct cm_connection *c = container_of(end, struct cm_connection, end);
	struct ctl_cm_event body = { 0 };

	switch (event) {
	case CONNECTION_ON_RESPONSE:
		body.kind = c->is_ud ? CTL_CM_ESTABLISHED : CTL_CM_CONNECT_RESPONSE;
		cm_end_read(m, 0, &body.end);
		break;
	case CONNECTION_ON_ESTABLISHED:
		body.kind = CTL_CM_ESTABLISHED;
		break;
	case CONNECTION_ON_REJECTED:
		body.kind = c->is_ud ? CTL_CM_UNREACHABLE : CTL_CM_REJECTED;
		body.status = m->reason;
		cm_end_read(m, 0, &body.end);
		break;
	case CONNECTION_ON_UNREACHABLE:
		body.kind = CTL_CM_UNREACHABLE;
		body.status = -ETIMEDOUT;
		break;
	case CONNECTION_ON_DISCONNECTED:
		body.kind = CTL_CM_DISCONNECTED;
		body.status = m ? 0 : -ETIMEDOUT;
		break;
	case CONNECTION_ON_TIMEWAIT_EXIT:
		body.kind = CTL_CM_TIMEWAIT_EXIT;
		break;
	}
	cm_event_post_step(c->id, &body);
}

static const struct connection_env env = { .send = on_send, .raise = on_raise };

/*
 * ------------------------------------------------------------------------------------------
 * The life of a connection.
 */

uint64_t cm_connection_hash(const struct cm *cm, const uint8_t *remote_gid, uint32_t number)
{
	struct {
		uint8_t gid[CTL_GID_BYTES];
		uint32_t number;
	} named = { .number = number };

	memcpy(named.gid, remote_gid, sizeof(named.gid));
	return secret_hash(&cm->secret, &named, sizeof(named));
}

struct cm_connection *cm_connection_create(struct cm_id *id, const struct cm_origin *o,
					   uint32_t number)
{
	struct cm *cm = id->owner->cm;
	struct cm_connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (!number) {
		comm_ids_add(&cm->connections, &c->comm_id);
	} else if (comm_ids_return(&cm->connections, &c->comm_id, number)) {
		free(c);
		return NULL;
	}
	c->cm = cm;
	c->id = id;
	id->had_connection = true;
	c->uid = id->owner->client->uid;
	c->is_local = o->is_local;
	c->other_session = o->session;
	memcpy(c->local_gid, o->local, sizeof(c->local_gid));
	memcpy(c->remote_gid, o->remote, sizeof(c->remote_gid));
	c->ifindex = o->ifindex;
	c->gsi = o->gsi ? gsi_ref(o->gsi) : NULL;
	list_init(&c->in_portless);
	table_entry_init(&c->by_remote);
	table_entry_init(&c->by_qp);
	connection_init(&c->end, &env, c->comm_id.value);
	id->connection = c;
	cm_id_set_address(id, c->local_gid);
	return c;
}

void cm_connection_destroy(struct cm_connection *c)
{
	if (c->id) {
		c->id->connection = NULL;
		cm_connection_save_id(c->id);
	}
	list_del(&c->in_portless);
	cm_timers_set(&c->cm->timers, &c->timer, 0);
	table_remove(&c->cm->by_remote, &c->by_remote);
	table_remove(&c->cm->by_qp, &c->by_qp);
	comm_ids_remove(&c->cm->connections, &c->comm_id);
	gsi_put(c->gsi);
	free(c);
}

/* Keeps the connection in the tables that its state calls for. */
static void enter_tables(struct cm_connection *c)
{
	/* Else a made-up connection would keep others from its remote QP (cm_match_end_stale). */
	bool has_qp = !c->is_local && !c->is_unverified && c->end.state == CONNECTION_ESTABLISHED;
	struct cm *cm = c->cm;

	if (c->end.remote_id && !table_holds(&c->by_remote))
		table_add(&cm->by_remote, &c->by_remote,
			  cm_connection_hash(cm, c->remote_gid, c->end.remote_id));
	if (!has_qp)
		table_remove(&cm->by_qp, &c->by_qp);
	else if (!table_holds(&c->by_qp))
		table_add(&cm->by_qp, &c->by_qp,
			  cm_connection_hash(cm, c->remote_gid, c->end.remote_qpn));
}

/* Its last message is a REJ that could not be sent, and that the other end waits for. */
static bool has_unsent_rej(const struct cm_connection *c)
{
	return !c->is_local && !c->gsi && c->end.sent.type == IBCM_REJ;
}

/* Keeps the connection without its identifier, with a limit: the port may never be opened. */
static void stay_alone(struct cm_connection *c)
{
	if (cm_timers_set(&c->cm->timers, &c->timer, deadline_now_ns() + LAST_REJ_NS)) {
		cm_connection_destroy(c);
		return;
	}
	if (!c->id)
		return;
	c->id->connection = NULL;
	cm_connection_save_id(c->id);
	c->id = NULL;
}

/* After every call of the protocol. */
static void settle(struct cm_connection *c)
{
	if (c->end.state == CONNECTION_CLOSED) {
		if (has_unsent_rej(c))
			stay_alone(c);
		else
			cm_connection_destroy(c);
		return;
	}
	enter_tables(c);
	if (c->id)
		cm_connection_save_id(c->id);
	/* Without memory for its timer the connection would never end. */
	if (cm_timers_set(&c->cm->timers, &c->timer, c->end.deadline_ns)) {
		connection_abandon(&c->end, deadline_now_ns());
		cm_connection_destroy(c);
	}
}

void cm_connection_on_time(struct cm_connection *c, int64_t now_ns)
{
	if (c->end.state == CONNECTION_CLOSED) {
		cm_connection_destroy(c);
		return;
	}
	connection_on_time(&c->end, now_ns);
	settle(c);
}

void cm_connection_on_message(struct cm_connection *c, const struct ibcm_message *m)
{
	connection_on_message(&c->end, m, deadline_now_ns());
	settle(c);
}

void cm_connection_on_request(struct cm_connection *c, const struct ibcm_message *m)
{
	c->is_ud = m->type == IBCM_SIDR_REQ;
	connection_on_request(&c->end, m, deadline_now_ns());
	settle(c);
}

/*
 * ------------------------------------------------------------------------------------------
 * What an identifier wants.
 */

int cm_connection_connect(struct cm_id *id, const struct ctl_cm_request *request)
{
	struct cm *cm = id->owner->cm;
	struct ibcm_message req;
	struct cm_origin o = {
		.local = request->local.gid,
		.remote = request->remote.gid,
		.ifindex = request->remote.ifindex,
	};
	struct cm_connection *c;
	int rc;

	if (id->connection || id->binding.listening || id->qp_type == CTL_CM_QP_XRC_RECV)
		return -EINVAL;
	rc = cm_end_fill_request(&req, id->binding.space, id->qp_type, request);
	if (rc)
		return rc;
	rc = host_has_address(request->remote.gid, request->remote.ifindex);
	if (rc < 0)
		return rc;
	o.is_local = rc > 0;
	rc = o.is_local ? 0
			: gsi_get(&cm->gsi, o.local, request->local.ifindex,
				  id->owner->client->uid + UINT64_C(1), &o.gsi);
	if (rc)
		return rc;
	c = cm_connection_create(id, &o, 0);
	gsi_put(o.gsi);
	if (!c)
		return -ENOMEM;
	c->is_ud = req.type == IBCM_SIDR_REQ;
	connection_connect(&c->end, &req, deadline_now_ns());
	settle(c);
	return 0;
}

int cm_connection_accept(struct cm_connection *c, const struct ctl_cm_request *request)
{
	struct ibcm_message answer;
	int rc = cm_end_fill_answer(&answer, c->is_ud ? IBCM_SIDR_REP : IBCM_REP, c->local_gid,
				    request);

	if (!rc)
		rc = connection_accept(&c->end, &answer, deadline_now_ns());
	/* Saved together with the state: a request that is repeated finds both. */
	if (!rc)
		c->id->is_unaccepted = false;
	settle(c);
	return rc;
}

int cm_connection_reject(struct cm_connection *c, const struct ctl_cm_request *request)
{
	struct ibcm_message answer;
	int rc = cm_end_fill_answer(&answer, c->is_ud ? IBCM_SIDR_REP : IBCM_REJ, c->local_gid,
				    request);

	if (!rc)
		rc = connection_reject(&c->end, &answer);
	settle(c);
	return rc;
}

int cm_connection_ready(struct cm_connection *c)
{
	int rc = connection_ready(&c->end);

	settle(c);
	return rc;
}

int cm_connection_establish(struct cm_connection *c)
{
	int rc = connection_establish(&c->end);

	settle(c);
	return rc;
}

int cm_connection_disconnect(struct cm_connection *c)
{
	int rc = connection_disconnect(&c->end, deadline_now_ns());

	settle(c);
	return rc;
}

void cm_connection_abandon(struct cm_connection *c)
{
	c->id->connection = NULL;
	c->id = NULL;
	connection_abandon(&c->end, deadline_now_ns());
	settle(c);
}

/*
 * ------------------------------------------------------------------------------------------
 * After the end of an earlier daemon.
 */

bool cm_connection_restore(struct cm_id *id, const struct cm_record_id *r)
{
	struct cm_origin o = {
		.is_local = r->is_local != 0,
		.session = r->other_session,
		.local = r->local_gid,
		.remote = r->remote_gid,
		.ifindex = r->ifindex,
	};
	struct cm_connection *c = cm_connection_create(id, &o, r->end.local_id);
	int64_t now_ns = deadline_now_ns();

	if (!c)
		return false;
	c->is_ud = r->is_ud != 0;
	c->is_unverified = c->uid != c->cm->daemon->uid;
	if (!connection_restore(&c->end, &r->end, now_ns) ||
	    cm_timers_set(&c->cm->timers, &c->timer, c->end.deadline_ns)) {
		cm_connection_destroy(c);
		return false;
	}
	enter_tables(c);
	cm_connection_open_port(c);
	return true;
}

bool cm_connection_open_port(struct cm_connection *c)
{
	if (!c->is_local && !c->gsi)
		gsi_get_again(&c->cm->gsi, c->local_gid, c->ifindex, c->uid + UINT64_C(1),
			      GSI_AGAIN_MS, &c->gsi);
	list_del(&c->in_portless);
	if (c->is_local || c->gsi)
		return true;
	list_add_tail(&c->cm->portless, &c->in_portless);
	return false;
}

/* In these states a connection on this host has another end here, too. */
static bool needs_other_end(const struct cm_connection *c)
{
	switch (c->end.state) {
	case CONNECTION_REQ_RCVD:
	case CONNECTION_REP_SENT:
	case CONNECTION_REP_RCVD:
	case CONNECTION_ESTABLISHED:
	case CONNECTION_DREQ_SENT:
		return c->is_local;
	default:
		return false;
	}
}

static bool has_other_end(const struct cm_connection *c)
{
	struct comm_id *n = comm_ids_find(&c->cm->connections, c->end.remote_id);
	struct cm_connection *other = n ? container_of(n, struct cm_connection, comm_id) : NULL;

	return other && other->is_local && other->uid == c->uid &&
	       (!other->end.remote_id || other->end.remote_id == c->end.local_id);
}

void cm_connection_resume(struct cm_connection *c)
{
	connection_resend(&c->end);
	if (c->end.state == CONNECTION_CLOSED)
		cm_connection_destroy(c);
}

void cm_connection_end_orphan(struct cm_connection *c)
{
	struct ibcm_message gone = { .type = IBCM_REJ, .reason = IBCM_REASON_INVALID_ID };

	if (!needs_other_end(c) || has_other_end(c) ||
	    cm_sessions_may_return(&c->cm->sessions, c->other_session))
		return;
	cm_connection_on_message(c, &gone);
}

void cm_connection_visit_all(struct cm *cm, void (*visit)(struct cm_connection *c))
{
	const struct table *all = &cm->connections.table;
	struct list *m, *after;

	for (size_t i = 0; i < all->bucket_count; i++) {
		list_for_each_safe(m, after, &all->buckets[i])
			visit(container_of(m, struct cm_connection, comm_id.entry.in_bucket));
	}
}

void cm_connection_visit_portless(struct cm *cm, bool (*visit)(struct cm_connection *c))
{
	struct list due;

	list_init(&due);
	list_take_all(&due, &cm->portless);
	while (!list_empty(&due)) {
		struct cm_connection *c = container_of(due.next, struct cm_connection, in_portless);

		/* It may stay without a port, or be visited no more: then it is in the list again.
		 */
		list_del(&c->in_portless);
		list_add_tail(&cm->portless, &c->in_portless);
		if (visit(c))
			continue;
		list_del(&c->in_portless);
		list_add_tail(due.next, &c->in_portless);
		break;
	}
	list_take_all(&cm->portless, &due);
}

void cm_connection_forget_all(struct cm *cm)
{
	cm_connection_visit_all(cm, cm_connection_destroy);
	cm_local_drop_all(&cm->in_flight);
}
