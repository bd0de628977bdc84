/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_dispatch.h"
#include "cmserver/cm_moved.h"
#include "cmserver/cm_pending.h"
#include "cmserver/cm_return.h"
#include "cmserver/cm_state.h"
#include "cmserver/cm_teardown.h"
#include "ctl/fdmsg.h"
#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/hello.h"
#include "daemon/token.h"

/* From the end of a process's socket to that of its last descriptor, and of the process. */
#define HANG_UP_MS 100

/*
 * ------------------------------------------------------------------------------------------
 * The daemon's start and end.
 */

static void on_addresses(struct cm_interfaces *interfaces)
{
	cm_moved_look(container_of(interfaces, struct cm, interfaces));
}

static int init_tables(struct cm *cm)
{
	int rc = secret_init(&cm->secret);

	if (!rc)
		rc = comm_ids_init(&cm->channels);
	if (!rc)
		rc = comm_ids_init(&cm->ids);
	if (!rc)
		rc = comm_ids_init(&cm->connections);
	if (!rc)
		rc = table_init(&cm->by_remote);
	if (!rc)
		rc = table_init(&cm->by_qp);
	return rc;
}

/* Tables that init_tables did not initialize are zero, which is allowed. */
static void fini_tables(struct cm *cm)
{
	comm_ids_fini(&cm->channels);
	comm_ids_fini(&cm->ids);
	comm_ids_fini(&cm->connections);
	table_fini(&cm->by_remote);
	table_fini(&cm->by_qp);
}

static void destroy(struct cm *cm)
{
	loop_timer_disarm(&cm->listen_again);
	cm_return_destroy(cm->returning);
	cm_pending_destroy(cm->pending);
	cm_sessions_fini(&cm->sessions);
	cm_timers_fini(&cm->timers);
	fini_tables(cm);
	free(cm);
}

int cm_init(struct daemon *d)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	cm->daemon = d;
	cm_space_init(&cm->space);
	cm_timers_init(&cm->timers, &d->loop, cm_dispatch_on_time);
	gsi_init(&cm->gsi, d, cm_dispatch_on_mad);
	cm_interfaces_init(&cm->interfaces, &cm->gsi, &d->loop, on_addresses);
	list_init(&cm->in_flight);
	list_init(&cm->portless);
	cm_id_init_all(cm);
	rc = init_tables(cm);
	if (!rc)
		rc = cm_pending_create(cm, cm_dispatch_on_pending_timeout);
	if (!rc) {
		cm_sessions_init(&cm->sessions, d);
		rc = cm_return_create(cm);
	}
	if (rc)
		destroy(cm);
	else
		d->cm = cm;
	return rc;
}

/* The stores of processes stay as they are, for the next daemon. */
static void leave_stores(struct daemon *d)
{
	struct list *m;

	list_for_each(m, &d->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c->cm)
			cm_store_close(&c->cm->store, c->uid);
	}
}

void cm_forget(struct daemon *d)
{
	leave_stores(d);
	cm_pending_forget_all(d->cm);
	cm_connection_forget_all(d->cm);
}

void cm_fini(struct daemon *d)
{
	destroy(d->cm);
}

/*
 * ------------------------------------------------------------------------------------------
 * A session's begin and end.
 */

/* Else its state is still in its store alone. */
static bool has_begun(const struct cm_client *cc)
{
	return cc->client->role == CLIENT_CM || cc->begin_seq;
}

/* All but the session and the store is gone after this. */
static void free_client(struct cm_client *cc)
{
	struct client *c = cc->client;

	loop_timer_disarm(&cc->hang_up);
	cm_interfaces_unwatch(&cc->cm->interfaces);
	cm_store_close(&cc->store, c->uid);
	c->cm = NULL;
	free(cc);
	idle_exit_release(&c->daemon->idle_exit);
}

/* As at the end of the daemon, but for one process: the store stays as it is, for its return. */
static void leave(struct cm_client *cc)
{
	struct cm *cm = cc->cm;
	struct list *m;

	if (has_begun(cc))
		cm_return_remember(cm->returning, cc->session, cc->client->uid);
	cm_store_close(&cc->store, cc->client->uid);
	list_for_each(m, &cc->ids) {
		struct cm_id *id = container_of(m, struct cm_id, in_client);

		if (id->connection)
			cm_connection_destroy(id->connection);
	}
	cm_teardown_client(cc);
	free_client(cc);
}

/*
 * The client that has the session has to make room for its process's next connection. 0; -ESTALE:
 * the process has begun anew, though nothing had ended.
 */
static int make_room(struct cm *cm, uint32_t session)
{
	struct list *m;

	list_for_each(m, &cm->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);
		bool was_closed;

		if (!c->cm || c->cm->session != session)
			continue;
		was_closed = client_is_closed(c) && cm_sessions_has_room(&cm->sessions, c->uid);
		if (was_closed)
			leave(c->cm);
		client_disconnect(c, was_closed ? NULL : "its process has begun anew");
		return was_closed ? 0 : -ESTALE;
	}
	return 0;
}

/*
 * Whether a client may have the session: 0; -ESTALE: the session is not away; -EPERM: it is another
 * process's. The daemon of one user gives it to any process of that user without checking the
 * token, whose name may be in another directory by now.
 */
static int admit(struct client *c, uint32_t session, int token_fd)
{
	struct cm *cm = c->daemon->cm;
	struct sockname name;
	int rc;

	if (c->daemon->scope == DAEMON_OF_USER)
		return make_room(cm, session);
	sockname_of_session(&c->daemon->space, session, &name);
	rc = token_prove(c->uid, token_fd, &name);
	if (rc)
		return rc;
	rc = make_room(cm, session);
	if (rc)
		return rc;
	return cm_sessions_is_away(&cm->sessions, session) ? 0 : -ESTALE;
}

/* Whether its process lives, as far as the kernel tells. */
static bool is_held(const struct cm_client *cc)
{
	return !client_has_ended(cc->client) && cm_sessions_is_held(&cc->cm->sessions, cc->session);
}

static void on_hang_up(struct loop_timer *timer)
{
	struct cm_client *cc = container_of(timer, struct cm_client, hang_up);
	struct client *c = cc->client;

	if (is_held(cc) && cm_sessions_has_room(&cc->cm->sessions, c->uid))
		leave(cc);
	client_disconnect(c, NULL);
}

bool cm_on_hang_up(struct client *c)
{
	if (!c->cm || !has_begun(c->cm) || !is_held(c->cm))
		return false;
	loop_timer_arm(&c->daemon->loop, &c->cm->hang_up, HANG_UP_MS);
	return true;
}

/*
 * Takes over store_fd on success. session: 0: a new one. 0; -ESTALE: the session ended; -EINVAL: no
 * store; -ENOMEM.
 */
static int create_client(struct client *c, int store_fd, uint32_t session)
{
	struct cm_client *cc = calloc(1, sizeof(*cc));
	int rc;

	if (!cc)
		return -ENOMEM;
	rc = cm_store_open(&cc->store, store_fd);
	if (rc) {
		free(cc);
		return rc;
	}
	cc->session = session;
	cc->returns = session != 0;
	cc->cm = c->daemon->cm;
	cc->client = c;
	list_init(&cc->ids);
	list_init(&cc->channels);
	loop_timer_init(&cc->hang_up, on_hang_up);
	c->cm = cc;
	cm_interfaces_watch(&cc->cm->interfaces);
	idle_exit_hold(&c->daemon->idle_exit);
	return 0;
}

void cm_on_hello(struct client *c, struct fdmsg *m)
{
	uint32_t session = m->body.cm_hello.session;
	int rc = m->body.cm_hello.greeting.magic == CTL_MAGIC ? 0 : -EPROTO;
	int token_fd = -1;

	if (!rc && (m->fd_count == 2) != (session != 0))
		rc = -EPROTO;
	if (!rc && session)
		rc = admit(c, session, m->fds[1]);
	if (!rc)
		rc = hello_watch_death(c);
	if (!rc)
		rc = create_client(c, m->fds[0], session);
	if (!rc)
		fdmsg_take_fd(m, 0);
	if (!rc && !session)
		rc = cm_sessions_make_token(&c->daemon->cm->sessions, &c->cm->session, &token_fd);
	if (rc) {
		hello_refuse(c, m->body.header.seq, -rc);
		return;
	}
	client_set_role(c, CLIENT_CM_EARLY);
	hello_welcome(c, m->body.header.seq, c->cm->session, token_fd);
}

/*
 * Whether the process gave up on its return before it said BEGIN: its store has not been read, and
 * the session is still away. It tries again.
 */
static bool is_away(const struct cm_client *cc)
{
	return cc->returns && !cc->begin_seq && cc->client->role == CLIENT_CM_EARLY &&
	       !client_has_ended(cc->client);
}

/* The process has ended (not the daemon: leave_stores), so its store is useless. */
static void end_session(struct cm_client *cc)
{
	cm_store_end(&cc->store);
	cm_sessions_forget(&cc->cm->sessions, cc->session);
}

void cm_on_death(struct client *c)
{
	struct cm_client *cc = c->cm;

	if (!cc)
		return;
	cm_teardown_client(cc);
	cm_dispatch_deliver(cc->cm);
	if (cc->store.fd >= 0 && !is_away(cc))
		end_session(cc);
	free_client(cc);
}

#ifdef VERBATIM_CHECK
/*
 * Turns of the loop between two checks, on average. A check looks at all identifiers, so it costs a
 * turn a look at 8 of them, however many there are.
 */
#define BETWEEN_CHECKS(identifiers) (16 + (uint32_t)(identifiers) / 8)

static void check_ids(const struct cm_client *cc)
{
	const struct list *m;

	list_for_each(m, &cc->ids) {
		const struct cm_id *id = container_of(m, struct cm_id, in_client);

		INVARIANT(id->owner == cc && id->channel->owner == cc, "identifier 0x%08x",
			  id->comm_id.value);
		INVARIANT(comm_ids_find(&cc->cm->ids, id->comm_id.value) == &id->comm_id,
			  "identifier 0x%08x", id->comm_id.value);
		INVARIANT(id->binding.bound == !list_empty(&id->binding.in_bucket),
			  "identifier 0x%08x: bound %d", id->comm_id.value, id->binding.bound);
		INVARIANT(id->backlog_left <= id->backlog, "identifier 0x%08x: backlog %u of %u",
			  id->comm_id.value, id->backlog_left, id->backlog);
	}
}

static size_t check_channels(const struct cm_client *cc)
{
	size_t events = 0;
	const struct list *m;

	list_for_each(m, &cc->channels) {
		const struct cm_channel *ch = container_of(m, struct cm_channel, in_client);

		INVARIANT(ch->owner == cc && comm_ids_find(&cc->cm->channels, ch->comm_id.value) ==
						     &ch->comm_id,
			  "channel 0x%08x", ch->comm_id.value);
		INVARIANT(list_check(&ch->events, ch->event_count) == ch->event_count,
			  "channel 0x%08x: counted %u events", ch->comm_id.value, ch->event_count);
		events += ch->event_count;
	}
	return events;
}

/*
 * Connection management:
 * - identifiers and channels of a process are its own, found by their values, and as many as were
 *   counted;
 * - an identifier has a port if and only if it is in the port space; a listener's backlog_left is
 *   at most its backlog;
 * - the events of a process are those of its channels;
 * - all identifiers and channels are those of the processes that are clients.
 */
void cm_check(const struct daemon *d)
{
	const struct cm *cm = d->cm;
	size_t ids = 0, channels = 0;
	const struct list *m;

	if (!check_sometimes(BETWEEN_CHECKS(cm->ids.table.count)))
		return;
	list_for_each(m, &d->clients) {
		const struct client *c = container_of(m, struct client, in_daemon);
		const struct cm_client *cc = c->cm;
		size_t events;

		if (!cc)
			continue;
		INVARIANT(list_check(&cc->ids, cc->id_count) == cc->id_count,
			  "process %d: counted %u identifiers", (int)c->pid, cc->id_count);
		INVARIANT(list_check(&cc->channels, cc->channel_count) == cc->channel_count,
			  "process %d: counted %u channels", (int)c->pid, cc->channel_count);
		check_ids(cc);
		events = check_channels(cc);
		INVARIANT(events == cc->event_count, "process %d: %zu events, counted %u",
			  (int)c->pid, events, cc->event_count);
		ids += cc->id_count;
		channels += cc->channel_count;
	}
	INVARIANT(ids == cm->ids.table.count, "%zu identifiers, %zu in the table", ids,
		  cm->ids.table.count);
	INVARIANT(channels == cm->channels.table.count && channels == cm->channel_count,
		  "%zu channels, %zu in the table, counted %u", channels, cm->channels.table.count,
		  cm->channel_count);
	comm_ids_check(&cm->ids);
	comm_ids_check(&cm->channels);
	comm_ids_check(&cm->connections);
	table_check(&cm->by_remote);
	table_check(&cm->by_qp);
}
#endif
