#include "daemon/cm_held.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cm.h"

struct held {
	struct list in_cm;
	struct loop_timer patience;
	struct cm *cm;
	struct cm_origin origin; /* its GIDs are below */
	uint8_t local[CTL_GID_BYTES], remote[CTL_GID_BYTES];
	struct ibcm_message message;
	int reason; /* of the refusal, should it come to that */
};

static void drop(struct held *h)
{
	loop_timer_disarm(&h->patience);
	list_remove(&h->in_cm);
	h->cm->held_count--;
	gsi_put(h->origin.gsi);
	free(h);
}

static void on_patience_end(struct loop_timer *timer)
{
	struct held *h = container_of(timer, struct held, patience);
	struct cm *cm = h->cm;

	cm_connection_refuse(cm, &h->origin, &h->message, h->reason);
	drop(h);
	cm_connection_deliver(cm);
}

bool cm_held_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m, int reason)
{
	struct held *h;

	if (cm->held_count >= CM_HELD_MAX)
		return false;
	h = malloc(sizeof(*h));
	if (!h)
		return false;
	*h = (struct held){ .cm = cm, .origin = *o, .message = *m, .reason = reason };
	memcpy(h->local, o->local, sizeof(h->local));
	memcpy(h->remote, o->remote, sizeof(h->remote));
	h->origin.local = h->local;
	h->origin.remote = h->remote;
	if (o->gsi)
		gsi_ref(o->gsi);
	list_append(&cm->held, &h->in_cm);
	cm->held_count++;
	loop_timer_init(&h->patience, on_patience_end);
	loop_timer_arm(&cm->daemon->loop, &h->patience,
		       reason == IBCM_REASON_NO_LISTENER ? CM_HELD_LISTEN_MS : CM_HELD_BACKLOG_MS);
	return true;
}

void cm_held_retry(struct cm *cm)
{
	list_for_each_safe(n, &cm->held) {
		struct held *h = container_of(n, struct held, in_cm);
		int reason = cm_connection_take(cm, &h->origin, &h->message);

		if (reason)
			h->reason = reason;
		else
			drop(h);
	}
}

void cm_held_forget_all(struct cm *cm)
{
	list_for_each_safe(n, &cm->held)
		drop(container_of(n, struct held, in_cm));
}
