/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "cmserver/cm.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_save.h"
#include "daemon/client.h"
#include "event/close_pool.h"
#include "event/receive_queue.h"

#define NOTICES_MAX 1024 /* more than a socket has room for, unless its buffer was enlarged */

/* If the socket is full, all threads that could be woken are awake already. */
static void notify(struct cm_channel *ch)
{
	char byte = 0;

	if (send(ch->fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		ch->notices++;
}

static void drain(struct cm_channel *ch)
{
	char byte;

	/* The program may have put descriptors in, which would have to be closed. */
	if (close_pool_is_behind(ch->owner->client->uid)) {
		client_disconnect(ch->owner->client, CLOSE_POOL_BEHIND);
		return;
	}
	/* No more than notify() put in: a program that puts in bytes wakes itself. */
	while (ch->notices &&
	       receive_queue_take_bytes(ch->owner->client->uid, ch->fd, &byte, sizeof(byte)) > 0)
		ch->notices--;
	ch->notices = 0;
}

int cm_channel_create(struct cm_client *owner, int fd, uint32_t number, struct cm_channel **out)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));
	int rc = 0;

	if (!ch)
		return -ENOMEM;
	if (number)
		rc = comm_ids_return(&owner->cm->channels, &ch->comm_id, number);
	else
		comm_ids_add(&owner->cm->channels, &ch->comm_id);
	if (rc) {
		free(ch);
		return rc;
	}
	ch->owner = owner;
	ch->fd = fd;
	list_init(&ch->events);
	list_init(&ch->ids);
	list_init(&ch->in_client);
	list_add_tail(&owner->channels, &ch->in_client);
	owner->channel_count++;
	owner->cm->channel_count++;
	/* Takes out the bytes of an earlier daemon: an event that is left is notified anew. */
	ch->notices = number ? NOTICES_MAX : 0;
	drain(ch);
	*out = ch;
	return 0;
}

struct cm_channel *cm_channel_find(struct client *c, uint32_t number)
{
	struct comm_id *n = comm_ids_find(&c->cm->cm->channels, number);
	struct cm_channel *ch = n ? container_of(n, struct cm_channel, comm_id) : NULL;

	return ch && ch->owner == c->cm ? ch : NULL;
}

void cm_channel_destroy(struct cm_channel *ch)
{
	while (!list_empty(&ch->ids))
		cm_id_destroy(container_of(ch->ids.next, struct cm_id, in_channel));
	comm_ids_remove(&ch->owner->cm->channels, &ch->comm_id);
	list_del(&ch->in_client);
	ch->owner->channel_count--;
	ch->owner->cm->channel_count--;
	close_pool_close(ch->owner->client->uid, ch->fd);
	free(ch);
}

static void append(struct cm_channel *ch, struct cm_event *e)
{
	e->channel = ch;
	list_add_tail(&ch->events, &e->in_channel);
	ch->event_count++;
	notify(ch);
}

static void take_out(struct cm_event *e)
{
	struct cm_channel *ch = e->channel;

	list_del(&e->in_channel);
	if (!--ch->event_count)
		drain(ch);
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
		cm_save_event(e, 0);
	}
	append(id->channel, e);
	return 0;
}

int cm_channel_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq)
{
	return post(id, &(struct cm_event){ .body = *body, .made_seq = made_seq });
}

int cm_channel_post_step(struct cm_id *id, const struct ctl_cm_event *body)
{
	return post(id, &(struct cm_event){ .body = *body, .index = ++id->raised });
}

int cm_channel_post_again(struct cm_id *id, const struct cm_event *saved)
{
	return post(id, saved);
}

struct cm_event *cm_channel_first(struct cm_channel *ch)
{
	return list_empty(&ch->events) ? NULL
				       : container_of(ch->events.next, struct cm_event, in_channel);
}

void cm_channel_drop(struct cm_event *e)
{
	struct cm_client *owner = e->id->owner;

	take_out(e);
	list_del(&e->in_id);
	owner->event_count--;
	cm_store_drop(&owner->store, &e->slot);
	free(e);
}

void cm_channel_give(struct cm_event *e, uint32_t seq)
{
	struct cm_client *owner = e->id->owner;

	cm_save_event(e, seq);
	cm_store_drop(&owner->store, &owner->given_slot);
	owner->given_slot = e->slot;
	e->slot = 0;
	cm_channel_drop(e);
}

void cm_channel_move(struct cm_id *id, struct cm_channel *to)
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
