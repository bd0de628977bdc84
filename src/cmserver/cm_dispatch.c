/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_dispatch.h"

#include <stdlib.h>

#include "cmserver/cm_connection.h"
#include "cmserver/cm_local.h"
#include "cmserver/cm_match.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_state.h"

static void on_request(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	bool stale = cm_match_end_stale(cm, o, m);
	int reason = stale ? IBCM_REASON_STALE : cm_match_take(cm, o, m);

	if (!reason)
		return;
	if (!cm_pending_add(cm, o, m, reason))
		cm_match_refuse(cm, o, m, reason);
}

static void on_message(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m)
{
	struct cm_connection *c = cm_match_find(cm, o, m);

	if (c) {
		if (o->session)
			c->other_session = o->session;
		cm_connection_on_message(c, m);
	} else if (m->type == IBCM_REQ || m->type == IBCM_SIDR_REQ) {
		/* 0 is no communication ID: repetitions would not be found. */
		if (m->local_id)
			on_request(cm, o, m);
	} else if (!cm_sessions_expects(&cm->sessions)) {
		/*
		 * Else it may be for a process that has not returned yet; the other end repeats it.
		 */
		cm_match_refuse(cm, o, m, 0);
	}
}

void cm_dispatch_on_mad(struct gsi *gsi, struct gsi_port *port, const uint8_t *remote,
			const struct ibcm_message *m)
{
	struct cm *cm = container_of(gsi, struct cm, gsi);
	struct cm_origin o = {
		.local = gsi_gid(port),
		.remote = remote,
		.ifindex = gsi_ifindex(port),
		.gsi = port,
	};

	on_message(cm, &o, m);
	cm_dispatch_deliver(cm);
}

void cm_dispatch_on_time(struct cm_timers *timers, struct timer_heap_entry *timer, int64_t now_ns)
{
	struct cm_connection *c = container_of(timer, struct cm_connection, timer);
	struct cm *cm = c->cm;

	cm_connection_on_time(c, now_ns);
	cm_dispatch_deliver(cm);
}

void cm_dispatch_on_pending_timeout(struct loop_timer *timer)
{
	struct cm_pending_queue *q = container_of(timer, struct cm_pending_queue, timeout);

	cm_pending_expire(q);
	cm_dispatch_deliver(q->cm);
}

void cm_dispatch_deliver(struct cm *cm)
{
	struct cm_local_message *l;

	while ((l = cm_local_take(&cm->in_flight))) {
		struct cm_origin o = {
			.is_local = true,
			.uid = l->uid,
			.session = l->session,
			.local = l->to,
			.remote = l->from,
			.ifindex = l->ifindex,
		};

		on_message(cm, &o, &l->message);
		free(l);
	}
}
