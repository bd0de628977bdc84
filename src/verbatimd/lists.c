/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/lists.h"

#include <string.h>

#include "cmserver/cm_id.h"
#include "cmserver/cm_state.h"

static void send_process(struct client *c, struct client *process)
{
	struct ctl_process message = {
		.header = { .type = CTL_PROCESS, .seq = c->list_seq },
		.slot = process->slot,
		.pid = process->pid,
		.uid = process->uid,
		.since_ns = process->since_ns,
	};

	memcpy(message.comm, process->comm, sizeof(message.comm));
	if (client_post(c, &message, sizeof(message), &process->arena, 1))
		client_disconnect(c, "its list cannot be sent");
}

static void send_listener(struct client *c, const struct cm_id *id)
{
	const struct client *owner = id->owner->client;
	struct ctl_cm_listener message = {
		.header = { .type = CTL_CM_LISTENER, .seq = c->list_seq },
		.pid = owner->pid,
		.uid = owner->uid,
		.space = id->binding.space,
		.backlog = id->backlog,
		.local = id->binding.local,
	};

	if (client_sees(c, owner))
		client_post(c, &message, sizeof(message), NULL, 0);
}

/* False: that was the last slot. */
static bool send_slot(struct client *c, unsigned slot)
{
	struct client *process;

	if (slot > CTL_SLOT_MAX)
		return false;
	process = c->daemon->by_slot[slot];
	if (process && !process->disconnecting && client_sees(c, process))
		send_process(c, process);
	return true;
}

/* False: that was the last bucket. */
static bool send_bucket(struct client *c, unsigned bucket)
{
	struct list *m;

	if (bucket >= CM_SPACE_BUCKETS)
		return false;
	list_for_each(m, &c->daemon->cm->space.buckets[bucket]) {
		const struct cm_binding *b = container_of(m, struct cm_binding, in_bucket);

		if (b->listening)
			send_listener(c, container_of(b, struct cm_id, binding));
	}
	return true;
}

void lists_on_drained(struct client *c)
{
	struct ctl_list end = { .header = { .type = CTL_LIST_END, .seq = c->list_seq } };

	while (c->list_type && !c->disconnecting && !c->send_queue.count) {
		unsigned next = c->list_next++;

		if (c->list_type == CTL_LIST ? send_slot(c, next) : send_bucket(c, next))
			continue;
		c->list_type = 0;
		client_post(c, &end, sizeof(end), NULL, 0);
	}
}

void lists_on_list(struct client *c, struct fdmsg *m)
{
	if (c->list_type) {
		client_disconnect(c, "it asked for a list while one was under way");
		return;
	}
	c->list_type = m->body.header.type;
	c->list_next = 0;
	c->list_seq = m->body.header.seq;
	lists_on_drained(c);
}
