/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_restore.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host_address.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_end.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_requests.h"
#include "cmserver/cm_state.h"
#include "cmserver/cm_teardown.h"
#include "ibcm/ip_header.h"

/* processor time for one process; then it is the others' turn */
#define BUSY_NS UINT64_C(1000000000)

/* Events, which are read in no order. */
struct found {
	uint32_t slot;
	struct cm_record_event record;
};

struct reading {
	struct cm_client *cc;
	struct found *events;
	unsigned count, room;
	uint64_t until_ns;	     /* of the thread's processor time */
	struct ctl_cm_address asked; /* the last address for which the kernel was asked */
	bool is_here;
};

/*
 * After all records are read: the event needs a free slot, and goes after those in the queue. Of a
 * child that was not accepted rdma_accept tells, by its failure.
 */
static void raise_removals(struct cm_client *cc)
{
	struct ctl_cm_event body = { .kind = CTL_CM_DEVICE_REMOVAL };
	struct list *m;

	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->is_lost && !id->is_unaccepted)
			cm_event_post(id, &body, 0);
		id->is_lost = false;
	}
}

/*
 * ------------------------------------------------------------------------------------------
 * Identifiers. An identifier that no request could have made is not restored.
 */

static bool is_of_host(struct reading *reading, const uint8_t *gid, uint32_t ifindex)
{
	struct ctl_cm_address *asked = &reading->asked;

	if (memcmp(asked->gid, gid, sizeof(asked->gid)) || asked->ifindex != ifindex ||
	    !asked->family) {
		memcpy(asked->gid, gid, sizeof(asked->gid));
		asked->ifindex = ifindex;
		asked->family = 1;
		/* An error says nothing: it was here. */
		reading->is_here = host_holds_address(gid, ifindex) != 0;
	}
	return reading->is_here;
}

/* False: another identifier has the port by now, or the address is not of this host any more. */
static bool restore_port(struct reading *reading, struct cm_id *id, const struct cm_record_id *r)
{
	id->binding.local = r->local;
	if (!r->is_bound)
		return true;
	if (!cm_address_is_any(&r->local) && !is_of_host(reading, r->local.gid, r->local.ifindex))
		return false;
	if (cm_id_bind_again(id, r->bind_flags, &r->local))
		return false;
	return !r->is_listening || !cm_id_listen(id, r->backlog, r->bind_flags);
}

static bool is_xrc(const struct cm_id *id)
{
	return id->qp_type == CTL_CM_QP_XRC_SEND || id->qp_type == CTL_CM_QP_XRC_RECV;
}

/*
 * Whether this is a request that cm_connection_connect sends: between these addresses, for a
 * service of IP.
 */
static bool is_own_request(const struct cm_id *id, const struct cm_record_id *r)
{
	const struct ibcm_message *m = &r->end.sent;
	enum ctl_cm_qp_type wanted =
		id->qp_type == CTL_CM_QP_XRC_SEND ? CTL_CM_QP_XRC_RECV : id->qp_type;
	struct ip_header header;
	uint16_t space, port;

	return id->qp_type != CTL_CM_QP_XRC_RECV && cm_end_wanted_type(m) == wanted &&
	       ip_header_service(m->service_id, &space, &port) && space == id->binding.space &&
	       ip_header_decode(m->private_data, &header) &&
	       !memcmp(header.source, r->local_gid, CTL_GID_BYTES) &&
	       !memcmp(header.destination, r->remote_gid, CTL_GID_BYTES) &&
	       !memcmp(m->local_gid, r->local_gid, CTL_GID_BYTES) &&
	       !memcmp(m->remote_gid, r->remote_gid, CTL_GID_BYTES);
}

/* Whether an identifier of this kind can be in this state; connection_restore looks at the rest. */
static bool suits_kind(const struct cm_id *id, const struct cm_record_id *r)
{
	bool is_ud = id->qp_type == CTL_CM_QP_UD;
	bool is_sidr = r->end.state == CONNECTION_SIDR_REQ_SENT ||
		       r->end.state == CONNECTION_SIDR_REQ_RCVD;

	if (is_sidr != is_ud || (r->is_ud != 0) != is_ud || (r->end.is_xrc != 0) != is_xrc(id))
		return false;
	if (r->end.state == CONNECTION_REQ_SENT || r->end.state == CONNECTION_SIDR_REQ_SENT)
		return r->end.sent.type == (is_ud ? IBCM_SIDR_REQ : IBCM_REQ) &&
		       is_own_request(id, r);
	return true;
}

static bool restore_connection(struct reading *reading, struct cm_id *id,
			       const struct cm_record_id *r)
{
	if (!r->has_connection)
		return true;
	if (!r->end.local_id || !suits_kind(id, r))
		return false;
	/* Packets come from addresses of this host alone. */
	if (!r->is_local && !is_of_host(reading, r->local_gid, r->ifindex))
		return false;
	return cm_connection_restore(id, r);
}

/* A record of an earlier version says it by the state alone. */
static bool is_unaccepted(const struct cm_record_id *r)
{
	bool is_asked =
		r->end.state == CONNECTION_REQ_RCVD || r->end.state == CONNECTION_SIDR_REQ_RCVD;

	return r->is_unaccepted || (r->has_connection && is_asked);
}

static bool keep_id(struct reading *reading, uint32_t slot, const struct cm_record_id *r)
{
	struct cm_client *cc = reading->cc;
	struct cm_channel *ch = cm_channel_find(cc->client, r->channel);
	struct cm_id *id;

	if (!ch || cc->id_count >= CM_IDS_PER_CLIENT || !r->number ||
	    (r->is_listening && (r->has_connection || !r->is_bound)) ||
	    !cm_requests_is_kind(r->space, (enum ctl_cm_qp_type)r->qp_type) ||
	    cm_id_create(cc, ch, (uint16_t)r->space, (enum ctl_cm_qp_type)r->qp_type, r->number,
			 &id))
		return false;
	id->slot = slot;
	id->made_seq = r->made_seq;
	id->raised = r->raised;
	id->had_connection = r->had_connection != 0;
	/* Before the connection, which saves the identifier if it cannot be restored. */
	id->is_unaccepted = is_unaccepted(r);
	id->is_lost = clock_ns(CLOCK_THREAD_CPUTIME_ID) > reading->until_ns ||
		      !restore_port(reading, id, r) || !restore_connection(reading, id, r);
	return true;
}

/*
 * ------------------------------------------------------------------------------------------
 * Events.
 */

static bool keep_event(struct reading *reading, uint32_t slot, const struct cm_record_event *r)
{
	if (reading->count >= CM_EVENTS_PER_CLIENT ||
	    r->body.end.private_bytes > CTL_CM_PRIVATE_BYTES)
		return false;
	if (reading->count == reading->room) {
		unsigned room = reading->room ? 2 * reading->room : 64;
		struct found *larger = realloc(reading->events, room * sizeof(*larger));

		if (!larger)
			return false;
		reading->events = larger;
		reading->room = room;
	}
	reading->events[reading->count++] = (struct found){ .slot = slot, .record = *r };
	return true;
}

static bool keep(void *arg, uint32_t slot, const void *record)
{
	struct reading *reading = arg;
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	if (kind == CM_RECORD_ID)
		return keep_id(reading, slot, record);
	return kind == CM_RECORD_EVENT && keep_event(reading, slot, record);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = ((const struct found *)a)->record.order,
		 y = ((const struct found *)b)->record.order;

	return x < y ? -1 : x > y;
}

/* Finds children whose request was not fetched, too. */
static struct cm_id *find(const struct cm_client *cc, uint32_t number)
{
	struct comm_id *n = comm_ids_find(&cc->cm->ids, number);
	struct cm_id *id = n ? container_of(n, struct cm_id, comm_id) : NULL;

	return id && id->owner == cc ? id : NULL;
}

/*
 * A child has no port, and so neither listens nor has children: there is one level, and no circle.
 */
static bool can_be_child(const struct cm_id *id, const struct cm_id *listener)
{
	return listener && listener->binding.listening && !id->binding.bound && !id->listener;
}

/*
 * False: its step was not completed, the program has the event already, or its identifier is gone.
 */
static bool restore_event(struct cm_client *cc, const struct found *f, uint32_t answered)
{
	const struct cm_record_event *r = &f->record;
	struct cm_id *id = find(cc, r->id);
	struct cm_id *listener = NULL;
	struct cm_event again = {
		.body = r->body,
		.slot = f->slot,
		.made_seq = r->made_seq,
		.index = r->index,
		.order = r->order,
	};

	if (!id || r->index > id->raised || r->body.kind >= CTL_CM_EVENT_KINDS ||
	    (r->given_seq && r->given_seq == answered))
		return false;
	if (r->body.kind == CTL_CM_CONNECT_REQUEST)
		listener = find(cc, r->body.listener);
	/* The program could not know of a child whose request it cannot fetch. */
	if ((r->body.kind == CTL_CM_CONNECT_REQUEST && !can_be_child(id, listener)) ||
	    cm_event_post_again(id, &again)) {
		if (r->body.kind == CTL_CM_CONNECT_REQUEST)
			cm_teardown_id(id);
		return false;
	}
	if (listener)
		cm_id_make_child(id, listener);
	if (cc->order < r->order)
		cc->order = r->order;
	return true;
}

void cm_restore(struct cm_client *cc, uint32_t answered)
{
	struct reading reading = {
		.cc = cc,
		.until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + BUSY_NS,
	};

	cm_store_read(&cc->store, keep, &reading);
	if (reading.count)
		qsort(reading.events, reading.count, sizeof(*reading.events), compare);
	for (unsigned i = 0; i < reading.count; i++) {
		if (!restore_event(cc, &reading.events[i], answered))
			cm_store_drop(&cc->store, &reading.events[i].slot);
	}
	free(reading.events);
	raise_removals(cc);
}
