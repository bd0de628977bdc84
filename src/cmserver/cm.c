/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/cm.h"

#include <errno.h>
#include <stdlib.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_connection.h"
#include "cmserver/cm_dispatch.h"
#include "cmserver/cm_id.h"
#include "daemon/daemon.h"

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

/* Tables that init_tables did not reach are zero, and may be passed, too. */
static void fini_tables(struct cm *cm)
{
	comm_ids_fini(&cm->channels);
	comm_ids_fini(&cm->ids);
	comm_ids_fini(&cm->connections);
	table_fini(&cm->by_remote);
	table_fini(&cm->by_qp);
}

int cm_init(struct daemon *d)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	rc = init_tables(cm);
	if (rc) {
		fini_tables(cm);
		free(cm);
		return rc;
	}
	d->cm = cm;
	cm->daemon = d;
	cm_space_init(&cm->space);
	cm_timers_init(&cm->timers, &d->loop, cm_dispatch_on_time);
	gsi_init(&cm->gsi, d, cm_dispatch_on_mad);
	cm_interfaces_init(&cm->interfaces, &cm->gsi, &d->loop, on_addresses);
	list_init(&cm->in_flight);
	cm_pending_init(cm);
	cm_return_init(cm);
	return 0;
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
	cm_return_fini(&d->cm->returning);
	cm_timers_fini(&d->cm->timers);
	fini_tables(d->cm);
	free(d->cm);
}

int cm_client_create(struct client *c, int store_fd, uint32_t session)
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
	c->cm = cc;
	cm_interfaces_watch(&cc->cm->interfaces);
	idle_exit_hold(&c->daemon->idle_exit);
	return 0;
}

/* The process has ended, not just the daemon (leave_stores): it will not come back with its store.
 */
static void end_session(struct cm_client *cc)
{
	cm_store_end(&cc->store);
	cm_return_forget(cc->cm, cc->session);
}

void cm_on_death(struct client *c)
{
	struct cm_client *cc = c->cm;

	if (!cc)
		return;
	while (!list_empty(&cc->ids))
		cm_id_destroy(container_of(cc->ids.next, struct cm_id, in_client));
	while (!list_empty(&cc->channels))
		cm_channel_destroy(container_of(cc->channels.next, struct cm_channel, in_client));
	cm_dispatch_deliver(cc->cm);
	cm_interfaces_unwatch(&cc->cm->interfaces);
	if (cc->store.fd >= 0)
		end_session(cc);
	cm_store_close(&cc->store, c->uid);
	c->cm = NULL;
	free(cc);
	idle_exit_release(&c->daemon->idle_exit);
}
