/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_return.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmserver/cm_connection.h"
#include "cmserver/cm_dispatch.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_requests.h"
#include "cmserver/cm_restore.h"
#include "cmserver/cm_state.h"
#include "ctl/deadline.h"
#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/daemon.h"

/* So many addresses without a port are tried at a time, each once a user; the next time, others. */
#define LACKED_MAX   8
#define LOOK_MS	     100
#define LOOK_IDLE_MS 1000 /* when nothing waits but sessions that have hung up */

/* What one user lacks: another one's share of ports may have room (gsi_get). */
struct lacked {
	struct cm_place place;
	uid_t uid;
};

struct cm_return {
	struct cm *cm;
	bool has_changed;		  /* who is away, since the last look at all connections */
	struct lacked lacked[LACKED_MAX]; /* in the last try */
	unsigned lacked_count;
	struct loop_timer look;
};

/*
 * ------------------------------------------------------------------------------------------
 * The ports of connections with other hosts.
 */

static bool was_tried(const struct cm_return *r, const struct cm_connection *c)
{
	for (unsigned i = 0; i < r->lacked_count; i++) {
		const struct lacked *l = &r->lacked[i];

		if (l->uid == c->uid && l->place.ifindex == c->ifindex &&
		    !memcmp(l->place.gid, c->local_gid, CTL_GID_BYTES))
			return true;
	}
	return false;
}

static bool open_port(struct cm_connection *c)
{
	struct cm_return *r = c->cm->returning;
	struct lacked *l;

	if (was_tried(r, c))
		return true;
	if (r->lacked_count == LACKED_MAX)
		return false;
	if (cm_connection_open_port(c)) {
		/*
		 * Until the wait is over, an identifier's connection has sent nothing; finish()
		 * resumes it.
		 */
		if (c->cm->sessions.is_over || !c->id)
			cm_connection_resume(c);
		return true;
	}
	l = &r->lacked[r->lacked_count++];
	l->uid = c->uid;
	memcpy(l->place.gid, c->local_gid, sizeof(l->place.gid));
	l->place.ifindex = c->ifindex;
	return true;
}

static void open_ports(struct cm_return *r)
{
	r->lacked_count = 0;
	cm_connection_visit_portless(r->cm, open_port);
}

/*
 * ------------------------------------------------------------------------------------------
 * The wait.
 */

static void answer(struct cm_client *cc)
{
	uint32_t seq = cc->begin_seq;

	cc->begin_seq = 0;
	client_set_role(cc->client, CLIENT_CM);
	cm_requests_reply(cc->client, seq, 0);
}

static void resume(struct cm_client *cc)
{
	struct list *m;

	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->connection)
			cm_connection_resume(id->connection);
	}
}

static void finish(struct cm_return *r)
{
	struct daemon *d = r->cm->daemon;
	struct list *m, *after;

	cm_sessions_end_wait(&r->cm->sessions);
	list_for_each_safe(m, after, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm && c->cm->begin_seq)
			resume(c->cm);
	}
	cm_dispatch_deliver(r->cm);
	list_for_each_safe(m, after, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm && c->cm->begin_seq)
			answer(c->cm);
	}
}

static void arm(struct cm_return *r)
{
	const struct cm_sessions *s = &r->cm->sessions;
	bool is_idle =
		s->is_over && !s->expected_count && !r->has_changed && list_empty(&r->cm->portless);

	loop_timer_arm(&r->cm->daemon->loop, &r->look, is_idle ? LOOK_IDLE_MS : LOOK_MS);
}

/* Who is away has changed. Many changes do not put the next look off. */
static void change(struct cm_return *r)
{
	if (r->has_changed)
		return;
	r->has_changed = true;
	arm(r);
}

static void go_on(struct cm_return *r)
{
	const struct cm_sessions *s = &r->cm->sessions;

	if (!s->is_over && (!s->expected_count || s->over_ns <= deadline_now_ns()))
		finish(r);
	open_ports(r);
}

static void end_orphans(struct cm_return *r)
{
	if (!r->cm->sessions.is_over || !r->has_changed)
		return;
	r->has_changed = false;
	cm_connection_visit_all(r->cm, cm_connection_end_orphan);
	cm_dispatch_deliver(r->cm);
}

static void on_look(struct loop_timer *timer)
{
	struct cm_return *r = container_of(timer, struct cm_return, look);

	r->has_changed |= cm_sessions_drop_ended(&r->cm->sessions);
	go_on(r);
	end_orphans(r);
	if (r->cm->sessions.away_count || r->has_changed || !list_empty(&r->cm->portless))
		arm(r);
}

int cm_return_create(struct cm *cm)
{
	struct cm_return *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->cm = cm;
	r->has_changed = cm->sessions.away_count != 0;
	loop_timer_init(&r->look, on_look);
	if (!cm->sessions.is_over)
		loop_timer_arm(&cm->daemon->loop, &r->look, LOOK_MS);
	cm->returning = r;
	return 0;
}

void cm_return_remember(struct cm_return *r, uint32_t session, uid_t uid)
{
	cm_sessions_remember(&r->cm->sessions, session, uid);
	change(r);
}

void cm_return_destroy(struct cm_return *r)
{
	if (!r)
		return;
	loop_timer_disarm(&r->look);
	free(r);
}

void cm_return_on_begin(struct client *c, struct fdmsg *m)
{
	struct cm_client *cc = c->cm;
	struct cm_return *r = cc->cm->returning;
	const struct ctl_cm_ask *ask = &m->body.cm_ask;

	if (cc->begin_seq || !ask->header.seq) {
		client_disconnect(c, "it begins twice");
		return;
	}
	cc->begin_seq = ask->header.seq;
	cc->repeated = ask->flags;
	if (cc->returns) {
		cm_restore(cc, ask->value);
		cm_sessions_on_return(&cc->cm->sessions, cc->session);
		cm_pending_on_listen(cc->cm); /* requests that came before its listeners */
	}
	if (cc->cm->sessions.is_over) {
		resume(cc);
		cm_dispatch_deliver(cc->cm);
		answer(cc);
	}
	if (cc->returns) {
		change(r);
		go_on(r);
	}
}
