/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_state.h"

/* given_seq: 0, or of the request that fetches it. */
static void save(struct cm_event *e, uint32_t given_seq)
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

static void append(struct cm_channel *ch, struct cm_event *e)
{
	e->channel = ch;
	list_add_tail(&ch->events, &e->in_channel);
	ch->event_count++;
	cm_channel_notify(ch);
}

static void take_out(struct cm_event *e)
{
	struct cm_channel *ch = e->channel;

	list_del(&e->in_channel);
	if (!--ch->event_count)
		cm_channel_drain(ch);
}

/* Puts a copy into the queue, and into the store unless it is there already. */
static int post(struct cm_id *id, const struct cm_event *like)
{
	struct cm_event *e;

	if (id->owner->event_count >= CM_EVENTS_PER_CLIENT)
		return -ENOSPC;
	e = malloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = *like;
	e->id = id;
	list_add_tail(&id->events, &e->in_id);
	id->owner->event_count++;
	if (!e->slot) {
		e->order = ++id->owner->order;
		save(e, 0);
	}
	append(id->channel, e);
	return 0;
}

int cm_event_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq)
{
	return post(id, &(struct cm_event){ .body = *body, .made_seq = made_seq });
}

int cm_event_post_step(struct cm_id *id, const struct ctl_cm_event *body)
{
	return post(id, &(struct cm_event){ .body = *body, .index = ++id->raised });
}

int cm_event_post_again(struct cm_id *id, const struct cm_event *saved)
{
	return post(id, saved);
}

struct cm_event *cm_event_first(struct cm_channel *ch)
{
	return list_empty(&ch->events) ? NULL
				       : container_of(ch->events.next, struct cm_event, in_channel);
}

void cm_event_drop(struct cm_event *e)
{
	struct cm_client *owner = e->id->owner;

	take_out(e);
	list_del(&e->in_id);
	owner->event_count--;
	cm_store_drop(&owner->store, &e->slot);
	free(e);
}

void cm_event_give(struct cm_event *e, uint32_t seq)
{
	struct cm_client *owner = e->id->owner;

	save(e, seq);
	cm_store_drop(&owner->store, &owner->given_slot);
	owner->given_slot = e->slot;
	e->slot = 0;
	cm_event_drop(e);
}

void cm_event_move_id(struct cm_id *id, struct cm_channel *to)
{
	struct list *m;

	list_del(&id->in_channel);
	list_add_tail(&to->ids, &id->in_channel);
	id->channel = to;
	list_for_each(m, &id->events) {
		struct cm_event *e = container_of(m, struct cm_event, in_id);

		take_out(e);
		append(to, e);
	}
}
