/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_match.h"

#include <arpa/inet.h>
#include <string.h>

#include "cmserver/cm_connection.h"
#include "cmserver/cm_end.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_local.h"
#include "cmserver/cm_state.h"
#include "daemon/client.h"
#include "ibcm/ip_header.h"

static bool is_with(const struct cm_connection *c, const struct cm_origin *o)
{
	return c->is_local == o->is_local && (!o->is_local || c->uid == o->uid) &&
	       !memcmp(c->remote_gid, o->remote, CTL_GID_BYTES) &&
	       !memcmp(c->local_gid, o->local, CTL_GID_BYTES);
}

/* The passive end of the connection to which the other end gave `number`. */
static struct cm_connection *find_by_remote(struct cm *cm, const struct cm_origin *o,
					    uint32_t number, bool is_ud)
{
	struct list *bucket =
			    table_bucket(&cm->by_remote, cm_connection_hash(cm, o->remote, number)),
		    *m;

	list_for_each(m, bucket) {
		struct cm_connection *c =
			container_of(m, struct cm_connection, by_remote.in_bucket);

		if (c->end.remote_id == number && c->is_ud == is_ud && is_with(c, o))
			return c;
	}
	return NULL;
}

/* Whether the message has the communication ID of the other end, if that is known already. */
static bool knows_both(const struct connection *end, const struct ibcm_message *m)
{
	if (m->type == IBCM_SIDR_REP || !end->remote_id)
		return true;
	/* An end that refuses a REQ at once has made no communication ID. */
	if (m->type == IBCM_REJ && !m->local_id && end->state == CONNECTION_REQ_SENT)
		return true;
	return m->local_id == end->remote_id;
}

struct cm_connection *cm_match_find(struct cm *cm, const struct cm_origin *o,
				    const struct ibcm_message *m)
{
	struct comm_id *n;
	struct cm_connection *c;

	if (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ)
		return find_by_remote(cm, o, m->local_id, m->type == IBCM_SIDR_REQ);
	/* An end that gives up before it got an answer does not know our communication ID. */
	if (m->type == IBCM_REJ && !m->remote_id)
		return find_by_remote(cm, o, m->local_id, false);
	n = comm_ids_find(&cm->connections, m->remote_id);
	c = n ? container_of(n, struct cm_connection, comm_id) : NULL;
	if (!c || !is_with(c, o))
		return NULL;
	return knows_both(&c->end, m) ? c : NULL;
}

static bool suits(const struct cm_binding *b, const void *arg)
{
	const struct cm_id *id = container_of(b, struct cm_id, binding);
	const struct cm_origin *o = arg;

	return !o->is_local || id->owner->client->uid == o->uid;
}

/* Sets the addresses of the body. NULL: there is no listener. */
static struct cm_id *find_listener(struct cm *cm, const struct cm_origin *o,
				   const struct ibcm_message *m, struct ctl_cm_event *body)
{
	uint16_t space, port;
	struct ip_header header;
	struct cm_binding *b;

	if (!ip_header_service(m->service_id, &space, &port) ||
	    !ip_header_decode(m->private_data, &header) ||
	    memcmp(header.destination, o->local, CTL_GID_BYTES) ||
	    /* The QP will send to this address: the request has to come from it. */
	    memcmp(header.source, o->remote, CTL_GID_BYTES))
		return NULL;
	body->local.family = body->remote.family = header.is_v4 ? AF_INET : AF_INET6;
	memcpy(body->local.gid, o->local, CTL_GID_BYTES);
	memcpy(body->remote.gid, header.source, CTL_GID_BYTES);
	body->local.port = htons(port);
	body->remote.port = htons(header.source_port);
	body->local.ifindex = body->remote.ifindex = o->ifindex;
	b = cm_space_find(&cm->space, space, &body->local, suits, o);
	return b ? container_of(b, struct cm_id, binding) : NULL;
}

int cm_match_take(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct ctl_cm_event body = { .kind = CTL_CM_CONNECT_REQUEST };
	struct cm_id *listener = find_listener(cm, o, m, &body);
	struct cm_connection *c;
	struct cm_id *child;

	if (!listener || (listener->qp_type == CTL_CM_QP_UD) != (m->type == IBCM_SIDR_REQ))
		return IBCM_REASON_NO_LISTENER;
	/* The listener's program would answer with a QP of another service. */
	if (listener->qp_type != cm_end_wanted_type(m))
		return IBCM_REASON_BAD_TRANSPORT;
	if (!listener->backlog_left || listener->owner->id_count >= CM_IDS_PER_CLIENT)
		return IBCM_REASON_CONSUMER;
	if (cm_id_create(listener->owner, listener->channel, listener->binding.space,
			 listener->qp_type, 0, &child))
		return IBCM_REASON_CONSUMER;
	child->binding.local = body.local;
	child->is_unaccepted = true;
	c = cm_connection_create(child, o, 0);
	cm_end_read(m, IP_HEADER_BYTES, &body.end);
	body.listener = listener->comm_id.value;
	if (!c || cm_event_post_step(child, &body)) {
		if (c)
			cm_connection_destroy(c);
		cm_id_destroy(child);
		return IBCM_REASON_CONSUMER;
	}
	cm_id_make_child(child, listener);
	cm_connection_on_request(c, m);
	return 0;
}

bool cm_match_end_stale(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct ibcm_message stale = { .type = IBCM_REJ, .reason = IBCM_REASON_STALE };
	struct list *bucket, *n;

	if (m->type != IBCM_REQ || !m->qpn || o->is_local)
		return false;
	bucket = table_bucket(&cm->by_qp, cm_connection_hash(cm, o->remote, m->qpn));
	list_for_each(n, bucket) {
		struct cm_connection *c = container_of(n, struct cm_connection, by_qp.in_bucket);

		if (c->end.remote_qpn != m->qpn || !is_with(c, o))
			continue;
		cm_connection_on_message(c, &stale);
		return true;
	}
	return false;
}

static void answer(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	if (o->is_local)
		cm_local_send(&cm->in_flight, o->uid, 0, o->local, o->remote, o->ifindex, m);
	else
		gsi_send(o->gsi, o->remote, m);
}

void cm_match_refuse(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		     int reason)
{
	struct ibcm_message stray;

	if (connection_answer_stray(m, (enum ibcm_reason)reason, &stray))
		answer(cm, o, &stray);
}
