/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_teardown.h"

#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_event.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_state.h"

void cm_teardown_id(struct cm_id *id)
{
	while (!list_empty(&id->children))
		cm_teardown_id(container_of(id->children.next, struct cm_id, in_listener));
	if (id->connection)
		cm_connection_abandon(id->connection);
	while (!list_empty(&id->events))
		cm_event_drop(container_of(id->events.next, struct cm_event, in_id));
	cm_id_destroy(id);
}

void cm_teardown_channel(struct cm_channel *ch)
{
	while (!list_empty(&ch->ids))
		cm_teardown_id(container_of(ch->ids.next, struct cm_id, in_channel));
	cm_channel_destroy(ch);
}

void cm_teardown_client(struct cm_client *cc)
{
	while (!list_empty(&cc->ids))
		cm_teardown_id(container_of(cc->ids.next, struct cm_id, in_client));
	while (!list_empty(&cc->channels))
		cm_teardown_channel(container_of(cc->channels.next, struct cm_channel, in_client));
}
