#include "cmserver/cm_held.h"

#include <stdlib.h>
#include <string.h>

#include "cmserver/cm.h"
#include "cmserver/cm_connection.h"
#include "ctl/deadline.h"

struct held {
	struct list in_queue;
	int64_t deadline_ns;
	struct cm_origin origin; /* its GIDs are below */
	uint8_t local[CTL_GID_BYTES], remote[CTL_GID_BYTES];
	struct ibcm_message message;
	int reason;
};

static struct held *first(const struct cm_held_queue *q)
{
	return container_of(q->requests.next, struct held, in_queue);
}

static void arm(struct cm_held_queue *q)
{
	if (list_empty(&q->requests))
		loop_timer_disarm(&q->patience);
	else
		loop_timer_arm(&q->cm->daemon->loop, &q->patience,
			       deadline_left_ms(first(q)->deadline_ns));
}

static void enter(struct cm_held_queue *q, struct held *h)
{
	h->deadline_ns = deadline_in_ms(q->patience_ms);
	/* The listener may be one that has not come back yet. */
	if (h->deadline_ns < q->cm->returning.over_ns)
		h->deadline_ns = q->cm->returning.over_ns;
	list_add_tail(&q->requests, &h->in_queue);
	if (first(q) == h)
		arm(q);
}

static void leave(struct cm_held_queue *q, struct held *h)
{
	bool is_first = first(q) == h;

	list_del(&h->in_queue);
	if (is_first)
		arm(q);
}

static void drop(struct cm_held_queue *q, struct held *h)
{
	leave(q, h);
	q->cm->held.count--;
	gsi_put(h->origin.gsi);
	free(h);
}

static void refuse(struct cm_held_queue *q, struct held *h)
{
	cm_connection_refuse(q->cm, &h->origin, &h->message, h->reason);
	drop(q, h);
}

/* NULL: nothing that it would be good to wait for. */
static struct cm_held_queue *queue_for(struct cm *cm, int reason)
{
	switch (reason) {
	case IBCM_REASON_NO_LISTENER:
		return &cm->held.listener;
	case IBCM_REASON_CONSUMER:
		return &cm->held.room;
	default:
		return NULL;
	}
}

/* True: it is taken. Else it may now wait for something else. */
static bool retry(struct cm_held_queue *q, struct held *h)
{
	struct cm_held_queue *other;

	h->reason = cm_connection_take(q->cm, &h->origin, &h->message);
	if (!h->reason) {
		drop(q, h);
		return true;
	}
	other = queue_for(q->cm, h->reason);
	if (!other) {
		refuse(q, h);
	} else if (other != q) {
		leave(q, h);
		enter(other, h);
	}
	return false;
}

static void on_patience_end(struct loop_timer *timer)
{
	struct cm_held_queue *q = container_of(timer, struct cm_held_queue, patience);
	int64_t now_ns = deadline_now_ns();

	while (!list_empty(&q->requests) && first(q)->deadline_ns <= now_ns)
		refuse(q, first(q));
	arm(q);
	cm_connection_deliver(q->cm);
}

static void init_queue(struct cm *cm, struct cm_held_queue *q, int64_t patience_ms)
{
	q->cm = cm;
	q->patience_ms = patience_ms;
	list_init(&q->requests);
	loop_timer_init(&q->patience, on_patience_end);
}

void cm_held_init(struct cm *cm)
{
	init_queue(cm, &cm->held.listener, CM_HELD_LISTEN_MS);
	init_queue(cm, &cm->held.room, CM_HELD_BACKLOG_MS);
	cm->held.count = 0;
}

bool cm_held_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m, int reason)
{
	struct cm_held_queue *q = queue_for(cm, reason);
	struct held *h;

	if (!q || cm->held.count >= CM_HELD_MAX)
		return false;
	h = malloc(sizeof(*h));
	if (!h)
		return false;
	*h = (struct held){ .origin = *o, .message = *m, .reason = reason };
	memcpy(h->local, o->local, sizeof(h->local));
	memcpy(h->remote, o->remote, sizeof(h->remote));
	h->origin.local = h->local;
	h->origin.remote = h->remote;
	if (o->gsi)
		gsi_ref(o->gsi);
	cm->held.count++;
	enter(q, h);
	return true;
}

void cm_held_on_listen(struct cm *cm)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &cm->held.listener.requests)
		retry(&cm->held.listener, container_of(m, struct held, in_queue));
	list_for_each_safe(m, after, &cm->held.room.requests)
		retry(&cm->held.room, container_of(m, struct held, in_queue));
}

/*
 * The first that there is room for took what there was. Were all of them tried, the work for a
 * thousand at once would be a thousand times a thousand.
 */
void cm_held_on_room(struct cm *cm)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &cm->held.room.requests) {
		if (retry(&cm->held.room, container_of(m, struct held, in_queue)))
			return;
	}
}

void cm_held_forget_all(struct cm *cm)
{
	while (!list_empty(&cm->held.listener.requests))
		drop(&cm->held.listener, first(&cm->held.listener));
	while (!list_empty(&cm->held.room.requests))
		drop(&cm->held.room, first(&cm->held.room));
}
