/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_save.h"

#include <string.h>

#include "cmserver/cm.h"
#include "cmserver/cm_connection.h"

void cm_save_id(struct cm_id *id)
{
	const struct cm_connection *c = id->connection;
	struct cm_record_id r;

	/* The process can read the padding, too. */
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
	r.local = id->binding.local;
	if (c) {
		r.has_connection = 1;
		r.is_local = c->is_local;
		r.is_ud = c->is_ud;
		memcpy(r.local_gid, c->local_gid, sizeof(r.local_gid));
		memcpy(r.remote_gid, c->remote_gid, sizeof(r.remote_gid));
		r.ifindex = c->ifindex;
		connection_save(&c->end, &r.end);
	}
	cm_store_put(&id->owner->store, &id->slot, &r, sizeof(r));
}

void cm_save_event(struct cm_event *e, uint32_t given_seq)
{
	struct cm_record_event r;

	memset(&r, 0, sizeof(r));
	r.kind = CM_RECORD_EVENT;
	r.id = e->id->comm_id.value;
	r.made_seq = e->made_seq;
	r.given_seq = given_seq;
	r.index = e->index;
	r.order = e->order;
	r.body = e->body;
	cm_store_put(&e->id->owner->store, &e->slot, &r, sizeof(r));
}
