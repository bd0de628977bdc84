#include "daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/client.h"
#include "daemon/cm.h"
#include "daemon/ports.h"

#define FIRST_CALL_MS 1000

static int64_t read_linger_ms(void)
{
	const char *text = secure_getenv("VERBATIMD_LINGER_MS");
	char *end;
	long ms;

	if (!text || !*text)
		return DAEMON_LINGER_MS;
	errno = 0;
	ms = strtol(text, &end, 10);
	return errno || *end || ms < 0 ? DAEMON_LINGER_MS : ms;
}

static void on_signal(struct loop_source *source, uint32_t events)
{
	struct daemon *d = container_of(source, struct daemon, on_signal);

	d->ended = true;
}

/*
 * A client that connects at this very moment finds its connection reset, and starts the next
 * daemon: ctl/client.c tries again.
 */
static void on_linger_end(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, linger);

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

int daemon_init(struct daemon *d, enum daemon_scope scope)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->scope = scope;
	d->uid = geteuid();
	d->linger_ms = read_linger_ms();
	list_init(&d->clients);
	list_init(&d->condemned);
	list_init(&d->memberships);
	list_init(&d->port_groups);
	loop_timer_init(&d->linger, on_linger_end);

	rc = scope == DAEMON_OF_SYSTEM ? sockname_space_of_system(&d->space)
				       : sockname_space_of_user(d->uid, &d->space);
	if (!rc)
		rc = loop_init(&d->loop);
	if (!rc)
		rc = watch_signals(d);
	if (!rc)
		rc = cm_init(d);
	if (!rc)
		rc = listen_init(&d->listener, d);
	/* Whoever started it needs a moment to come, however short it is to stay afterwards. */
	if (!rc && scope == DAEMON_OF_USER)
		loop_timer_arm(&d->loop, &d->linger,
			       d->linger_ms > FIRST_CALL_MS ? d->linger_ms : FIRST_CALL_MS);
	return rc;
}

void daemon_on_slot_change(struct daemon *d)
{
	if (d->slots_used || d->cm_clients || d->scope == DAEMON_OF_SYSTEM)
		loop_timer_disarm(&d->linger);
	else
		loop_timer_arm(&d->loop, &d->linger, d->linger_ms);
}

void daemon_run(struct daemon *d)
{
	while (!d->ended) {
		loop_turn(&d->loop);
		client_bury_condemned(d);
	}
}

void daemon_fini(struct daemon *d)
{
	listen_fini(&d->listener);
	cm_forget(d);
	client_dismiss_all(d);
	cm_fini(d);
	ports_on_end(d);
	close(d->signal_fd);
	loop_fini(&d->loop);
}
