/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm_return.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmserver/cm.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_dispatch.h"
#include "cmserver/cm_requests.h"
#include "cmserver/cm_restore.h"
#include "ctl/deadline.h"
#include "daemon/daemon.h"
#include "daemon/token.h"

#define TRIES	 64
#define AWAY_MAX 16384

static struct cm_return *of(struct loop_timer *look)
{
	return container_of(look, struct cm_return, look);
}

/* ------------------------------------------------------------------------------------------
 * Tokens.
 */

int cm_return_make_token(struct cm_client *cc, int *token_fd)
{
	int fd = token_make_socket();

	if (fd < 0)
		return -errno;
	for (int i = 0; i < TRIES; i++) {
		struct sockname name;
		uint32_t session;

		if (getrandom(&session, sizeof(session), GRND_NONBLOCK) != sizeof(session) || !session)
			continue;
		sockname_of_session(&cc->cm->daemon->space, session, &name);
		if (sockname_bind(fd, &name))
			continue;
		cc->session = session;
		*token_fd = fd;
		return 0;
	}
	close(fd);
	return -EAGAIN;
}

void cm_return_forget(struct cm *cm, uint32_t session)
{
	struct sockname name;

	sockname_of_session(&cm->daemon->space, session, &name);
	if (session)
		sockname_remove(&name);
}

/* Whether the session's process has ended; then removes the name. */
static bool has_ended(const struct cm_return *r, int fd, uint32_t session)
{
	struct sockname name;

	sockname_of_session(&r->cm->daemon->space, session, &name);
	if (!connect(fd, (struct sockaddr *)&name.addr, name.len))
		return false;
	if (errno == ECONNREFUSED)
		sockname_remove(&name);
	return true;
}

static void expect(uint32_t session, void *arg)
{
	struct cm_return *r = arg;
	uint32_t *larger;
	int fd = token_make_socket();
	/* Sessions that ended before may have left their names. */
	bool ended = fd >= 0 && has_ended(r, fd, session);

	if (fd >= 0)
		close(fd);
	/* Without a directory any process can make such names: hence the limit. */
	if (ended || r->away_count >= AWAY_MAX)
		return;
	larger = realloc(r->away, (r->away_count + 1) * sizeof(*larger));
	if (!larger)
		return;
	r->away = larger;
	r->away[r->away_count++] = session;
}

static void expect_no_more(struct cm_return *r, uint32_t session)
{
	for (unsigned i = 0; i < r->away_count; i++) {
		if (r->away[i] == session)
			r->away[i--] = r->away[--r->away_count];
	}
}

static void drop_ended(struct cm_return *r)
{
	int fd = token_make_socket();

	for (unsigned i = 0; fd >= 0 && i < r->away_count; i++) {
		if (has_ended(r, fd, r->away[i]))
			r->away[i--] = r->away[--r->away_count];
	}
	if (fd >= 0)
		close(fd);
}

/* ------------------------------------------------------------------------------------------
 * All connections.
 */

static void each_connection(struct cm *cm, void (*call)(struct cm_connection *c))
{
	const struct table *all = &cm->connections.table;
	struct list *m, *after;

	for (size_t i = 0; i < all->bucket_count; i++) {
		list_for_each_safe(m, after, &all->buckets[i])
			call(container_of(m, struct cm_connection, comm_id.entry.in_bucket));
	}
}

static bool was_tried(const struct cm_return *r, const struct cm_connection *c)
{
	for (unsigned i = 0; i < r->lacked_count; i++) {
		if (r->lacked[i].ifindex == c->ifindex &&
		    !memcmp(r->lacked[i].gid, c->local_gid, CTL_GID_BYTES))
			return true;
	}
	return r->lacked_count == CM_RETURN_LACKED;
}

static void open_port(struct cm_connection *c)
{
	struct cm_return *r = &c->cm->returning;
	struct cm_place *p;

	if (c->is_local || c->gsi)
		return;
	if (was_tried(r, c)) {
		r->lacks_port = true;
		return;
	}
	if (cm_connection_open_port(c)) {
		/*
		 * Until the wait is over, an identifier's connection has sent nothing; finish()
		 * resumes it.
		 */
		if (r->is_over || !c->id)
			cm_connection_resume(c);
		return;
	}
	r->lacks_port = true;
	p = &r->lacked[r->lacked_count++];
	memcpy(p->gid, c->local_gid, sizeof(p->gid));
	p->ifindex = c->ifindex;
}

static void open_ports(struct cm_return *r)
{
	r->lacks_port = false;
	r->lacked_count = 0;
	each_connection(r->cm, open_port);
}

/* ------------------------------------------------------------------------------------------
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

	r->is_over = true;
	r->over_ns = 0;
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

static void look(struct cm_return *r)
{
	if (!r->is_over && (!r->away_count || r->over_ns <= deadline_now_ns()))
		finish(r);
	if (r->lacks_port)
		open_ports(r);
	if (!r->away_count) {
		each_connection(r->cm, cm_connection_end_orphan);
		cm_dispatch_deliver(r->cm);
	}
	if (r->away_count || r->lacks_port)
		loop_timer_arm(&r->cm->daemon->loop, &r->look, CM_RETURN_LOOK_MS);
	else
		loop_timer_disarm(&r->look);
}

static void on_look(struct loop_timer *timer)
{
	struct cm_return *r = of(timer);

	drop_ended(r);
	look(r);
}

void cm_return_init(struct cm *cm)
{
	struct cm_return *r = &cm->returning;

	*r = (struct cm_return){ .cm = cm };
	loop_timer_init(&r->look, on_look);
	sockname_each_session(&cm->daemon->space, expect, r);
	r->is_over = !r->away_count;
	if (r->is_over)
		return;
	r->over_ns = deadline_in_ms(CM_RETURN_MS);
	loop_timer_arm(&cm->daemon->loop, &r->look, CM_RETURN_LOOK_MS);
}

void cm_return_fini(struct cm_return *r)
{
	loop_timer_disarm(&r->look);
	free(r->away);
}

bool cm_return_expects(const struct cm *cm)
{
	return cm->returning.away_count || !cm->returning.is_over;
}

/* Disconnects a client that has the session: its own process says that it connects anew. */
static bool cut_off(struct cm *cm, uint32_t session)
{
	struct list *m;

	list_for_each(m, &cm->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (!c->cm || c->cm->session != session)
			continue;
		client_disconnect(c, "its process has begun anew");
		return true;
	}
	return false;
}

int cm_return_admit(struct client *c, uint32_t session, int token_fd)
{
	const struct cm_return *r = &c->daemon->cm->returning;
	struct sockname name;
	int rc;

	if (c->daemon->scope == DAEMON_OF_USER)
		return cut_off(c->daemon->cm, session) ? -ESTALE : 0;
	sockname_of_session(&c->daemon->space, session, &name);
	rc = token_prove(c->uid, token_fd, &name);
	if (rc)
		return rc;
	if (cut_off(c->daemon->cm, session))
		return -ESTALE;
	for (unsigned i = 0; i < r->away_count; i++) {
		if (r->away[i] == session)
			return 0;
	}
	return -ESTALE;
}

void cm_return_on_begin(struct client *c, struct fdmsg *m)
{
	struct cm_client *cc = c->cm;
	struct cm_return *r = &cc->cm->returning;
	const struct ctl_cm_ask *ask = &m->body.cm_ask;

	if (cc->begin_seq || !ask->header.seq) {
		client_disconnect(c, "it begins twice");
		return;
	}
	cc->begin_seq = ask->header.seq;
	cc->repeated = ask->flags;
	if (cc->returns) {
		cm_restore(cc, ask->value);
		expect_no_more(r, cc->session);
		r->lacks_port = true;
	}
	if (r->is_over) {
		resume(cc);
		cm_dispatch_deliver(cc->cm);
		answer(cc);
	}
	if (cc->returns)
		look(r);
}
