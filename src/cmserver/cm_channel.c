/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_channel.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "cmserver/cm_state.h"
#include "daemon/client.h"
#include "event/close_pool.h"
#include "event/receive_queue.h"

#define NOTICES_MAX 1024 /* more than a socket has room for, unless its buffer was enlarged */

/* If the socket is full, all threads that could be woken are awake already. */
void cm_channel_notify(struct cm_channel *ch)
{
	char byte = 0;

	if (send(ch->fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		ch->notices++;
}

void cm_channel_drain(struct cm_channel *ch)
{
	struct client *c = ch->owner->client;
	char byte;

	/* No more than cm_channel_notify put in: a program that puts in bytes wakes itself. */
	while (ch->notices) {
		/* The program may have put descriptors in, which have to be closed. */
		if (close_pool_is_behind(c->uid)) {
			client_disconnect(c, CLOSE_POOL_BEHIND);
			return;
		}
		if (receive_queue_take_bytes(c->uid, ch->fd, &byte, sizeof(byte)) <= 0)
			break;
		ch->notices--;
	}
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
	cm_channel_drain(ch);
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
	comm_ids_remove(&ch->owner->cm->channels, &ch->comm_id);
	list_del(&ch->in_client);
	ch->owner->channel_count--;
	ch->owner->cm->channel_count--;
	close_pool_close(ch->owner->client->uid, ch->fd);
	free(ch);
}
