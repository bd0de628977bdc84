/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/listing.h"

#include <string.h>

static void tell_process(struct client *c, struct client *process)
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

void listing_on_drained(struct client *c)
{
	struct ctl_list end = { .header = { .type = CTL_LIST_END, .seq = c->list_seq } };

	while (c->list_next && !c->disconnecting && !c->send_queue.count) {
		unsigned slot = c->list_next++;
		struct client *process;

		if (slot > CTL_SLOT_MAX) {
			c->list_next = 0;
			client_post(c, &end, sizeof(end), NULL, 0);
			return;
		}
		process = c->daemon->by_slot[slot];
		if (process && !process->disconnecting && client_sees(c, process))
			tell_process(c, process);
	}
}

void listing_on_list(struct client *c, struct fdmsg *m)
{
	if (c->list_next) {
		client_disconnect(c, "it asked for a list while one was under way");
		return;
	}
	c->list_next = 1;
	c->list_seq = m->body.header.seq;
	listing_on_drained(c);
}
