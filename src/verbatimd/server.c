/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "cmserver/cm.h"
#include "daemon/client.h"
#include "daemon/counts.h"
#include "daemon/directory.h"
#include "daemon/links.h"
#include "daemon/port_return.h"
#include "daemon/ports.h"
#include "daemon/service.h"
#include "daemon/slots.h"
#include "verbatimd/ends.h"
#include "verbatimd/listening.h"
#include "verbatimd/lists.h"
#include "verbatimd/messages.h"

static const struct client_hooks hooks = {
	.on_message = messages_on_message,
	.on_drained = lists_on_drained,
	.on_hang_up = cm_on_hang_up,
	.on_death = ends_on_death,
	.on_dismissal = ends_on_dismissal,
};

static void on_signal(struct loop_source *source, uint32_t events)
{
	struct daemon *d = container_of(source, struct daemon, on_signal);

	d->ended = true;
}

static int watch_signals(struct daemon *d)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	d->on_signal.on_ready = on_signal;
	d->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	return d->signal_fd < 0 ? -errno
				: loop_watch(&d->loop, d->signal_fd, EPOLLIN, &d->on_signal);
}

static int init_core(struct daemon *d, enum daemon_scope scope)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->scope = scope;
	d->uid = geteuid();
	d->hooks = &hooks;
	client_init_all(d);
	counts_init(d);
	links_init(d);
	list_init(&d->memberships);
	list_init(&d->port_groups);
	idle_exit_init(&d->idle_exit, &d->loop, scope == DAEMON_OF_SYSTEM);

	d->file.fd = d->file.reserve_fd = d->name.fd = d->name.reserve_fd = d->lock_fd = -1;

	rc = directory_make(d);
	if (!rc)
		rc = loop_init(&d->loop);
	if (!rc)
		rc = watch_signals(d);
	return rc;
}

int server_init(struct daemon *d, enum daemon_scope scope)
{
	int rc = init_core(d, scope);

	if (!rc)
		rc = cm_init(d);
	if (!rc)
		port_return_init(d);
	if (!rc)
		rc = listening_begin(d);
	if (!rc)
		idle_exit_await_first(&d->idle_exit);
	service_drop_rest();
	return rc;
}

#ifdef VERBATIM_CHECK
/* Turns of the loop between two checks of a client's links, on average. */
#define BETWEEN_CHECKS 16

/*
 * All tables, between two turns of the loop: nothing is disconnecting, and each client is in one
 * list.
 */
static void server_check(const struct daemon *d)
{
	const struct list *m;

	INVARIANT(list_empty(&d->disconnecting), "%zu clients",
		  list_check(&d->disconnecting, SIZE_MAX));
	list_check(&d->clients, SIZE_MAX);
	INVARIANT(list_check(&d->kept_links, d->kept_count) == d->kept_count, "%u links",
		  d->kept_count);
	slots_check(d);
	list_for_each(m, &d->clients) {
		if (check_sometimes(BETWEEN_CHECKS))
			links_check(container_of(m, struct client, in_daemon));
	}
	cm_check(d);
}
#endif

void server_run(struct daemon *d)
{
	while (!d->ended && !d->idle_exit.over) {
		loop_turn(&d->loop);
		client_free_disconnecting(d);
		CHECK(server_check(d));
	}
}

void server_fini(struct daemon *d)
{
	listening_end(d);
	cm_forget(d);
	client_dismiss_all(d);
	counts_forget(d);
	cm_fini(d);
	ports_on_end(d);
	sockname_clean_dir(&d->space);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	close(d->signal_fd);
	loop_fini(&d->loop);
}
