#include "cmserver/cm_connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_address.h"
#include "cmserver/cm.h"
#include "cmserver/cm_end.h"
#include "cmserver/cm_moved.h"
#include "cmserver/cm_save.h"
#include "ctl/deadline.h"
#include "daemon/address.h"
#include "daemon/daemon.h"
#include "ibcm/ip_header.h"
#include "ibcm/mad.h"

#define LAST_WORD_NS INT64_C(3000000000) /* a REJ waits for its port: as long as a goodbye takes */

/* A message between two ends of this host. */
struct handed {
	struct list in_flight;
	uid_t uid;
	uint8_t from[CTL_GID_BYTES], to[CTL_GID_BYTES];
	uint32_t ifindex;
	struct ibcm_message message;
};

/* ------------------------------------------------------------------------------------------
 * Out.
 */

/* Out of memory it is lost, as it might be on a wire. */
static void hand_over(struct cm *cm, const struct handed *h, const struct ibcm_message *m)
{
	struct handed *copy = malloc(sizeof(*copy));

	if (!copy)
		return;
	*copy = *h;
	copy->message = *m;
	list_add_tail(&cm->in_flight, &copy->in_flight);
}

static void on_send(struct connection *end, const struct ibcm_message *m)
{
	struct cm_connection *c = container_of(end, struct cm_connection, end);
	struct handed h = { .uid = c->uid, .ifindex = c->ifindex };

	/* Before it is on the wire: the next daemon is to say this one again, and not another with another number. */
	if (c->id && (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ))
		cm_save_id(c->id);
	if (!c->is_local) {
		/* Without the port yet it is lost, as it might be on a wire, and said again with it (cm_return.h). */
		if (c->gsi)
			gsi_send(c->gsi, c->remote_gid, m);
		return;
	}
	memcpy(h.from, c->local_gid, sizeof(h.from));
	memcpy(h.to, c->remote_gid, sizeof(h.to));
	hand_over(c->cm, &h, m);
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
		break;
	case CONNECTION_ON_TIMEWAIT_EXIT:
		body.kind = CTL_CM_TIMEWAIT_EXIT;
		break;
	}
	cm_channel_post_step(c->id, &body);
}

static const struct connection_env env = { .send = on_send, .raise = on_raise };

/* ------------------------------------------------------------------------------------------
 * The life of a connection.
 */

/* Of what another end calls by a number: a connection, or its QP. */
static uint64_t hash_remote(const struct cm *cm, const uint8_t *remote_gid, uint32_t number)
{
	struct {
		uint8_t gid[CTL_GID_BYTES];
		uint32_t number;
	} named = { .number = number };

	memcpy(named.gid, remote_gid, sizeof(named.gid));
	return secret_hash(&cm->secret, &named, sizeof(named));
}

/* number: 0: a new one. NULL: out of memory, or something else has the number. */
static struct cm_connection *create(struct cm_id *id, const struct cm_origin *o, uint32_t number)
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
	memcpy(c->local_gid, o->local, sizeof(c->local_gid));
	memcpy(c->remote_gid, o->remote, sizeof(c->remote_gid));
	c->ifindex = o->ifindex;
	c->gsi = o->gsi ? gsi_ref(o->gsi) : NULL;
	table_entry_init(&c->by_remote);
	table_entry_init(&c->by_qp);
	connection_init(&c->end, &env, c->comm_id.value);
	id->connection = c;
	cm_moved_bind(id, c->local_gid);
	return c;
}

static void destroy(struct cm_connection *c)
{
	if (c->id) {
		c->id->connection = NULL;
		cm_save_id(c->id);
	}
	cm_timers_set(&c->cm->timers, &c->timer, 0);
	table_remove(&c->cm->by_remote, &c->by_remote);
	table_remove(&c->cm->by_qp, &c->by_qp);
	comm_ids_remove(&c->cm->connections, &c->comm_id);
	gsi_put(c->gsi);
	free(c);
}

/* Tables say what they say of it: by_qp, that it is established. */
static void enter_tables(struct cm_connection *c)
{
	/* Who makes up a connection must not keep others from the QP that it is with (is_stale). */
	bool has_qp = !c->is_local && !c->is_hearsay && c->end.state == CONNECTION_ESTABLISHED;
	struct cm *cm = c->cm;

	if (c->end.remote_id && !table_holds(&c->by_remote))
		table_add(&cm->by_remote, &c->by_remote, hash_remote(cm, c->remote_gid, c->end.remote_id));
	if (!has_qp)
		table_remove(&cm->by_qp, &c->by_qp);
	else if (!table_holds(&c->by_qp))
		table_add(&cm->by_qp, &c->by_qp, hash_remote(cm, c->remote_gid, c->end.remote_qpn));
}

/* Its last word is a REJ that nobody could hear, and that the other end would wait for: it stays to say it again. */
static bool has_last_word(const struct cm_connection *c)
{
	return !c->is_local && !c->gsi && c->end.sent.type == IBCM_REJ;
}

/* Not for ever: its user may be gone, and the port never come. */
static void stay_alone(struct cm_connection *c)
{
	if (cm_timers_set(&c->cm->timers, &c->timer, deadline_now_ns() + LAST_WORD_NS)) {
		destroy(c);
		return;
	}
	if (!c->id)
		return;
	c->id->connection = NULL;
	cm_save_id(c->id);
	c->id = NULL;
}

/* After every call of the protocol. */
static void settle(struct cm_connection *c)
{
	if (c->end.state == CONNECTION_CLOSED) {
		if (has_last_word(c))
			stay_alone(c);
		else
			destroy(c);
		return;
	}
	enter_tables(c);
	if (c->id)
		cm_save_id(c->id);
	/* Without memory for its timer nothing would ever end it. */
	if (cm_timers_set(&c->cm->timers, &c->timer, c->end.deadline_ns)) {
		connection_abandon(&c->end, deadline_now_ns());
		destroy(c);
	}
}

void cm_connection_on_time(struct cm_timers *timers, struct cm_timer *timer, int64_t now_ns)
{
	struct cm_connection *c = container_of(timer, struct cm_connection, timer);
	struct cm *cm = c->cm;

	if (c->end.state == CONNECTION_CLOSED) {
		destroy(c);
		return;
	}
	connection_on_time(&c->end, now_ns);
	settle(c);
	cm_connection_deliver(cm);
}

/* ------------------------------------------------------------------------------------------
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
	o.is_local = host_has_address(request->remote.gid, request->remote.ifindex) > 0;
	if (!o.is_local)
		rc = gsi_get(&cm->gsi, o.local, request->local.ifindex, &o.gsi);
	if (rc)
		return rc;
	c = create(id, &o, 0);
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

/* ------------------------------------------------------------------------------------------
 * In.
 */

static bool is_with(const struct cm_connection *c, const struct cm_origin *o)
{
	return c->is_local == o->is_local && (!o->is_local || c->uid == o->uid) &&
	       !memcmp(c->remote_gid, o->remote, CTL_GID_BYTES) &&
	       !memcmp(c->local_gid, o->local, CTL_GID_BYTES);
}

/* The passive end of what the other end calls `number`. */
static struct cm_connection *find_by_remote(struct cm *cm, const struct cm_origin *o,
					    uint32_t number, bool is_ud)
{
	struct list *bucket = table_bucket(&cm->by_remote, hash_remote(cm, o->remote, number)), *m;

	list_for_each(m, bucket) {
		struct cm_connection *c = container_of(m, struct cm_connection, by_remote.in_bucket);

		if (c->end.remote_id == number && c->is_ud == is_ud && is_with(c, o))
			return c;
	}
	return NULL;
}

/* What it knows of the other end has to be right, but for the answer that tells it. */
static bool knows_both(const struct connection *end, const struct ibcm_message *m)
{
	if (m->type == IBCM_SIDR_REP || !end->remote_id)
		return true;
	/* Of a REQ that it refuses at once, the other end made no number. */
	if (m->type == IBCM_REJ && !m->local_id && end->state == CONNECTION_REQ_SENT)
		return true;
	return m->local_id == end->remote_id;
}

static struct cm_connection *find(struct cm *cm, const struct cm_origin *o,
				  const struct ibcm_message *m)
{
	struct comm_id *n;
	struct cm_connection *c;

	if (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ)
		return find_by_remote(cm, o, m->local_id, m->type == IBCM_SIDR_REQ);
	/* Who gives up before it got an answer does not know our number. */
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

/* Between which addresses, and for whom. NULL: for nobody. */
static struct cm_id *find_listener(struct cm *cm, const struct cm_origin *o,
				   const struct ibcm_message *m, struct ctl_cm_event *body)
{
	uint16_t space, port;
	struct ip_header header;
	struct cm_binding *b;

	if (!ip_header_service(m->service_id, &space, &port) ||
	    !ip_header_decode(m->private_data, &header) ||
	    memcmp(header.destination, o->local, CTL_GID_BYTES) ||
	    /* The QP would send there: nobody asks for that but from there. */
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

/* 0, or the reason why not. */
static int take_request(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct ctl_cm_event body = { .kind = CTL_CM_CONNECT_REQUEST };
	struct cm_id *listener = find_listener(cm, o, m, &body);
	struct cm_connection *c;
	struct cm_id *child;

	if (!listener || (listener->qp_type == CTL_CM_QP_UD) != (m->type == IBCM_SIDR_REQ))
		return IBCM_REASON_NO_LISTENER;
	/* The listener's program would answer with a QP that cannot talk to the other one. */
	if (listener->qp_type != cm_end_wanted_type(m))
		return IBCM_REASON_BAD_TRANSPORT;
	if (!listener->backlog_left || listener->owner->id_count >= CM_IDS_PER_CLIENT)
		return IBCM_REASON_CONSUMER;
	if (cm_id_create(listener->owner, listener->channel, listener->binding.space,
			 listener->qp_type, 0, &child))
		return IBCM_REASON_CONSUMER;
	child->binding.local = body.local;
	c = create(child, o, 0);
	cm_end_read(m, IP_HEADER_BYTES, &body.end);
	body.listener = listener->comm_id.value;
	if (!c || cm_channel_post_step(child, &body)) {
		if (c)
			destroy(c);
		cm_id_destroy(child);
		return IBCM_REASON_CONSUMER;
	}
	cm_id_make_child(child, listener);
	c->is_ud = m->type == IBCM_SIDR_REQ;
	connection_on_request(&c->end, m, deadline_now_ns());
	settle(c);
	return 0;
}

int cm_connection_take(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	/* It came twice, and the other is taken. */
	return find(cm, o, m) ? 0 : take_request(cm, o, m);
}

static void answer(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct handed h = { .uid = o->uid, .ifindex = o->ifindex };

	if (!o->is_local) {
		gsi_send(o->gsi, o->remote, m);
		return;
	}
	memcpy(h.from, o->local, sizeof(h.from));
	memcpy(h.to, o->remote, sizeof(h.to));
	hand_over(cm, &h, m);
}

/*
 * The other end begins a connection of a QP that, as far as this end knows, is connected already:
 * it has forgotten that one (IBA 12.4.1). It is told, and so is the identifier here.
 */
static bool is_stale(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct ibcm_message stale = { .type = IBCM_REJ, .reason = IBCM_REASON_STALE };
	struct list *bucket, *n;

	if (m->type != IBCM_REQ || !m->qpn || o->is_local)
		return false;
	bucket = table_bucket(&cm->by_qp, hash_remote(cm, o->remote, m->qpn));
	list_for_each(n, bucket) {
		struct cm_connection *c = container_of(n, struct cm_connection, by_qp.in_bucket);

		if (c->end.remote_qpn != m->qpn || !is_with(c, o))
			continue;
		connection_on_message(&c->end, &stale, deadline_now_ns());
		settle(c);
		return true;
	}
	return false;
}

void cm_connection_refuse(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
			  int reason)
{
	struct ibcm_message stray;

	if (connection_answer_stray(m, (enum ibcm_reason)reason, &stray))
		answer(cm, o, &stray);
}

static void on_request(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	bool stale = is_stale(cm, o, m);
	int reason = stale ? IBCM_REASON_STALE : take_request(cm, o, m);

	if (!reason)
		return;
	if (!cm_pending_add(cm, o, m, reason))
		cm_connection_refuse(cm, o, m, reason);
}

static void on_message(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct cm_connection *c = find(cm, o, m);

	if (c) {
		connection_on_message(&c->end, m, deadline_now_ns());
		settle(c);
	} else if (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ) {
		/* 0 is nobody's number here: repetitions would not be found */
		if (m->local_id)
			on_request(cm, o, m);
	} else if (!cm_return_expects(cm)) {
		/* Else it may be for one that has not come back yet, and is said again. */
		cm_connection_refuse(cm, o, m, 0);
	}
}

void cm_connection_on_mad(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			  const struct ibcm_message *m)
{
	struct cm *cm = container_of(gsi, struct cm, gsi);
	struct cm_origin o = {
		.local = gsi_gid(port),
		.remote = remote,
		.ifindex = gsi_ifindex(port),
		.gsi = port,
	};

	on_message(cm, &o, m);
	cm_connection_deliver(cm);
}

void cm_connection_deliver(struct cm *cm)
{
	while (!list_empty(&cm->in_flight)) {
		struct handed *h = container_of(cm->in_flight.next, struct handed, in_flight);
		struct cm_origin o = {
			.is_local = true,
			.uid = h->uid,
			.local = h->to,
			.remote = h->from,
			.ifindex = h->ifindex,
		};

		list_del(&h->in_flight);
		on_message(cm, &o, &h->message);
		free(h);
	}
}

/* ------------------------------------------------------------------------------------------
 * After the end of an earlier daemon.
 */

bool cm_connection_restore(struct cm_id *id, const struct cm_record_id *r)
{
	struct cm_origin o = {
		.is_local = r->is_local != 0,
		.local = r->local_gid,
		.remote = r->remote_gid,
		.ifindex = r->ifindex,
	};
	struct cm_connection *c = create(id, &o, r->end.local_id);
	int64_t now_ns = deadline_now_ns();

	if (!c)
		return false;
	c->is_ud = r->is_ud != 0;
	c->is_hearsay = c->uid != c->cm->daemon->uid;
	if (!connection_restore(&c->end, &r->end, now_ns) ||
	    cm_timers_set(&c->cm->timers, &c->timer, c->end.deadline_ns)) {
		destroy(c);
		return false;
	}
	enter_tables(c);
	cm_connection_open_port(c);
	return true;
}

bool cm_connection_open_port(struct cm_connection *c)
{
	if (!c->is_local && !c->gsi)
		gsi_get(&c->cm->gsi, c->local_gid, c->ifindex, &c->gsi);
	return c->is_local || c->gsi;
}

/* States in which the other end is there, too, if both are on this host. */
static bool needs_other_end(const struct cm_connection *c)
{
	return c->is_local &&
	       (c->end.state == CONNECTION_REQ_RCVD || c->end.state == CONNECTION_REP_RCVD ||
		c->end.state == CONNECTION_ESTABLISHED);
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
		destroy(c);
}

void cm_connection_end_orphan(struct cm_connection *c)
{
	struct ibcm_message gone = { .type = IBCM_REJ, .reason = IBCM_REASON_INVALID_ID };

	if (!needs_other_end(c) || has_other_end(c))
		return;
	connection_on_message(&c->end, &gone, deadline_now_ns());
	settle(c);
}

void cm_connection_forget_all(struct cm *cm)
{
	const struct table *all = &cm->connections.table;
	struct list *m, *after;

	for (size_t i = 0; i < all->bucket_count; i++) {
		list_for_each_safe(m, after, &all->buckets[i])
			destroy(container_of(m, struct cm_connection, comm_id.entry.in_bucket));
	}
	list_for_each_safe(m, after, &cm->in_flight) {
		list_del(m);
		free(container_of(m, struct handed, in_flight));
	}
}
