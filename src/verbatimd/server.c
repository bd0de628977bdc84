#include "verbatimd/server.h"

#include "cmserver/cm.h"
#include "daemon/client.h"
#include "daemon/links.h"
#include "daemon/listing.h"
#include "daemon/mcast.h"
#include "daemon/port_store.h"
#include "daemon/ports.h"
#include "daemon/service.h"
#include "daemon/slots.h"
#include "verbatimd/messages.h"

/*
 * A process has one socket as a process and another for its connections, whose end may be noticed later. Its
 * peers are to hear of the end of a connection before that of the QP (links_on_death): a program may put the
 * connection away because requests were flushed, and then would never learn why.
 */
static void end_connections(struct client *dead)
{
	struct list *m, *after;

	list_for_each_safe(m, after, &dead->daemon->clients) {
		struct client *c = container_of(m, struct client, in_daemon);

		if (c == dead || !c->cm || c->pid != dead->pid)
			continue;
		cm_on_death(c);
		client_disconnect(c, NULL);
	}
}

static void on_death(struct client *c)
{
	if (c->role == CLIENT_PROCESS && client_has_ended(c))
		end_connections(c);
	cm_on_death(c);
	ports_on_death(c);
	slots_on_death(c);
	links_on_death(c);
	mcast_on_death(c);
}

static void on_dismissal(struct client *c)
{
	links_on_dismissal(c);
	mcast_on_dismissal(c);
	cm_on_death(c);
}

static const struct client_hooks hooks = {
	.on_message = messages_on_message,
	.on_drained = listing_on_drained,
	.on_death = on_death,
	.on_dismissal = on_dismissal,
};

int server_init(struct daemon *d, enum daemon_scope scope)
{
	int rc = daemon_init(d, scope, &hooks);

	if (!rc)
		rc = cm_init(d);
	if (!rc)
		port_store_restore(d); /* before a process asks for a port */
	if (!rc)
		rc = daemon_listen(d);
	service_drop_rest();
	return rc;
}

void server_fini(struct daemon *d)
{
	daemon_stop_listening(d);
	cm_forget(d);
	client_dismiss_all(d);
	cm_fini(d);
	ports_on_end(d);
	daemon_fini(d);
}
