/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmserver/cm_connection.h"
#include "cmserver/cm_match.h"
#include "cmserver/cm_state.h"
#include "ctl/deadline.h"
#include "daemon/daemon.h"

struct pending {
	struct list in_queue;
	int64_t deadline_ns;
	struct cm_origin origin; /* its GIDs are below */
	uint8_t local[CTL_GID_BYTES], remote[CTL_GID_BYTES];
	struct ibcm_message message;
	int reason;
};

static struct pending *first(const struct cm_pending_queue *q)
{
	return container_of(q->requests.next, struct pending, in_queue);
}

static void arm(struct cm_pending_queue *q)
{
	if (list_empty(&q->requests))
		loop_timer_disarm(&q->timeout);
	else
		loop_timer_arm(&q->cm->daemon->loop, &q->timeout,
			       deadline_left_ms(first(q)->deadline_ns));
}

static void enter(struct cm_pending_queue *q, struct pending *p)
{
	p->deadline_ns = deadline_in_ms(q->timeout_ms);
	list_add_tail(&q->requests, &p->in_queue);
	if (first(q) == p)
		arm(q);
}

static void leave(struct cm_pending_queue *q, struct pending *p)
{
	bool is_first = first(q) == p;

	list_del(&p->in_queue);
	if (is_first)
		arm(q);
}

static void drop(struct cm_pending_queue *q, struct pending *p)
{
	leave(q, p);
	q->cm->pending->count--;
	gsi_put(p->origin.gsi);
	free(p);
}

static void refuse(struct cm_pending_queue *q, struct pending *p)
{
	cm_match_refuse(q->cm, &p->origin, &p->message, p->reason);
	drop(q, p);
}

/* NULL: waiting does not help. */
static struct cm_pending_queue *queue_for(struct cm *cm, int reason)
{
	switch (reason) {
	case IBCM_REASON_NO_LISTENER:
		/* The listener's process may not have returned yet. */
		return cm_sessions_expects(&cm->sessions) ? &cm->pending->room
							  : &cm->pending->listener;
	case IBCM_REASON_CONSUMER:
		return &cm->pending->room;
	default:
		return NULL;
	}
}

/* True: a listener took it. Else it may now wait for another reason. */
static bool retry(struct cm_pending_queue *q, struct pending *p)
{
	struct cm_pending_queue *other;

	/* A repeated request has its connection already. */
	if (cm_match_find(q->cm, &p->origin, &p->message))
		p->reason = 0;
	else
		p->reason = cm_match_take(q->cm, &p->origin, &p->message);
	if (!p->reason) {
		drop(q, p);
		return true;
	}
	other = queue_for(q->cm, p->reason);
	if (!other) {
		refuse(q, p);
	} else if (other != q) {
		leave(q, p);
		enter(other, p);
	}
	return false;
}

void cm_pending_expire(struct cm_pending_queue *q)
{
	int64_t now_ns = deadline_now_ns();

	while (!list_empty(&q->requests) && first(q)->deadline_ns <= now_ns)
		refuse(q, first(q));
	arm(q);
}

static void init_queue(struct cm *cm, struct cm_pending_queue *q, int64_t timeout_ms,
		       void (*on_timeout)(struct loop_timer *timer))
{
	q->cm = cm;
	q->timeout_ms = timeout_ms;
	list_init(&q->requests);
	loop_timer_init(&q->timeout, on_timeout);
}

int cm_pending_create(struct cm *cm, void (*on_timeout)(struct loop_timer *timer))
{
	struct cm_pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return -ENOMEM;
	init_queue(cm, &pending->listener, CM_PENDING_LISTEN_MS, on_timeout);
	init_queue(cm, &pending->room, CM_PENDING_BACKLOG_MS, on_timeout);
	cm->pending = pending;
	return 0;
}

void cm_pending_destroy(struct cm_pending *pending)
{
	free(pending);
}

bool cm_pending_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		    int reason)
{
	struct cm_pending_queue *q = queue_for(cm, reason);
	struct pending *p;

	if (!q || cm->pending->count >= CM_PENDING_MAX)
		return false;
	p = malloc(sizeof(*p));
	if (!p)
		return false;
	*p = (struct pending){ .origin = *o, .message = *m, .reason = reason };
	memcpy(p->local, o->local, sizeof(p->local));
	memcpy(p->remote, o->remote, sizeof(p->remote));
	p->origin.local = p->local;
	p->origin.remote = p->remote;
	if (o->gsi)
		gsi_ref(o->gsi);
	cm->pending->count++;
	enter(q, p);
	return true;
}

void cm_pending_on_listen(struct cm *cm)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &cm->pending->listener.requests)
		retry(&cm->pending->listener, container_of(m, struct pending, in_queue));
	list_for_each_safe(m, after, &cm->pending->room.requests)
		retry(&cm->pending->room, container_of(m, struct pending, in_queue));
}

/*
 * Stops at the first request that finds room, which uses it up. Trying all would make the work
 * quadratic.
 */
void cm_pending_on_room(struct cm *cm)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &cm->pending->room.requests) {
		if (retry(&cm->pending->room, container_of(m, struct pending, in_queue)))
			return;
	}
}

void cm_pending_forget_all(struct cm *cm)
{
	while (!list_empty(&cm->pending->listener.requests))
		drop(&cm->pending->listener, first(&cm->pending->listener));
	while (!list_empty(&cm->pending->room.requests))
		drop(&cm->pending->room, first(&cm->pending->room));
}
