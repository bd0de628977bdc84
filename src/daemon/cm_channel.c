#include "daemon/cm_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/client.h"
#include "daemon/closer.h"
#include "daemon/cm.h"
#include "daemon/cm_id.h"
#include "daemon/intake.h"

static void ring(struct cm_channel *ch)
{
	char byte = 0;

	send(ch->bell_fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void silence(struct cm_channel *ch)
{
	char bytes[16];

	/* What it has put in beside bytes would have to be closed. */
	if (closer_is_behind(ch->owner->client->uid)) {
		client_condemn(ch->owner->client, CLOSER_BEHIND);
		return;
	}
	/* Once: there is one byte, and where the program puts in more it wakes itself. */
	intake_bytes(ch->owner->client->uid, ch->program_fd, bytes, sizeof(bytes));
}

struct cm_channel *cm_channel_create(struct cm_client *owner, int bell_fd, int program_fd)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->owner = owner;
	ch->bell_fd = bell_fd;
	ch->program_fd = program_fd;
	list_init(&ch->events);
	list_init(&ch->ids);
	list_init(&ch->in_client);
	list_append(&owner->channels, &ch->in_client);
	owner->channel_count++;
	owner->cm->channel_count++;
	numbers_add(&owner->cm->channels, &ch->numbered);
	return ch;
}

void cm_channel_destroy(struct cm_channel *ch)
{
	while (!list_empty(&ch->ids))
		cm_id_destroy(container_of(ch->ids.next, struct cm_id, in_channel));
	numbers_remove(&ch->owner->cm->channels, &ch->numbered);
	list_remove(&ch->in_client);
	ch->owner->channel_count--;
	ch->owner->cm->channel_count--;
	closer_close(ch->owner->client->uid, ch->bell_fd);
	closer_close(ch->owner->client->uid, ch->program_fd);
	free(ch);
}

static void append(struct cm_channel *ch, struct cm_event *e)
{
	e->channel = ch;
	list_append(&ch->events, &e->in_channel);
	if (!ch->event_count++)
		ring(ch);
}

static void take_out(struct cm_event *e)
{
	struct cm_channel *ch = e->channel;

	list_remove(&e->in_channel);
	if (!--ch->event_count)
		silence(ch);
}

int cm_channel_post(struct cm_id *id, const struct ctl_cm_event *body)
{
	struct cm_event *e;

	if (id->owner->event_count >= CM_EVENTS_PER_CLIENT)
		return -ENOSPC;
	e = malloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->id = id;
	e->body = *body;
	list_append(&id->events, &e->in_id);
	id->owner->event_count++;
	append(id->channel, e);
	return 0;
}

struct cm_event *cm_channel_first(struct cm_channel *ch)
{
	return list_empty(&ch->events) ? NULL
				       : container_of(ch->events.next, struct cm_event, in_channel);
}

void cm_channel_drop(struct cm_event *e)
{
	take_out(e);
	list_remove(&e->in_id);
	e->id->owner->event_count--;
	free(e);
}

void cm_channel_move(struct cm_id *id, struct cm_channel *to)
{
	list_remove(&id->in_channel);
	list_append(&to->ids, &id->in_channel);
	id->channel = to;
	list_for_each_safe(m, &id->events) {
		struct cm_event *e = container_of(m, struct cm_event, in_id);

		take_out(e);
		append(to, e);
	}
}
