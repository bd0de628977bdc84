#include "daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/client.h"
#include "daemon/service.h"

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

/* Whether the process that has the abstract name may be our daemon, in another mount namespace. */
static bool is_daemons(const struct daemon *d, const struct sockname *name)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	bool is_ours = sock < 0 || connect(sock, (const struct sockaddr *)&name->addr, name->len) < 0 ||
		       getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid == 0 ||
		       peer.uid == d->uid;

	if (sock >= 0)
		close(sock);
	/* A program that starts a daemon takes what that prints for a failure; this is none to it.
	 */
	if (!is_ours && d->scope == DAEMON_OF_SYSTEM)
		fprintf(stderr,
			"verbatimd: the socket @%s is held by process %d of user %u, which is not "
			"verbatimd; only those are served who see %s\n",
			d->space.text, (int)peer.pid, (unsigned)peer.uid, d->space.dir);
	return is_ours;
}

/* A socket on which a service manager listens for us, at one of the two names. */
struct wanted_socket {
	struct sockname name;
	int fd; /* -1: not found */
};

static bool take_socket(int fd, const char *name, void *arg)
{
	struct wanted_socket *w = arg;
	struct sockname actual = { .len = sizeof(actual.addr) }; /* zero beyond what is filled in */
	int type, listens;
	socklen_t len = sizeof(int);

	if (w->fd >= 0 || getsockname(fd, (struct sockaddr *)&actual.addr, &actual.len) < 0 ||
	    !sockname_equal(&actual, &w->name) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens)
		return false;
	w->fd = fd;
	return true;
}

/* Takes the socket that the service manager has for the name, or binds one. 0 or -errno. */
static int listen_at(struct listener *l, struct daemon *d, const struct sockname *name)
{
	struct wanted_socket wanted = { .name = *name, .fd = -1 };
	int rc;

	service_each(take_socket, &wanted);
	if (wanted.fd < 0)
		return listen_init(l, d, name);
	rc = listen_take(l, d, wanted.fd);
	if (rc)
		close(wanted.fd);
	return rc;
}

/*
 * Of daemons that start at once, the one that gets the directory's lock, or the abstract name,
 * stays.
 */
static int listen_everywhere(struct daemon *d)
{
	struct sockname name;
	int rc = 0;

	if (sockname_of_daemon_file(&d->space, &name))
		rc = listen_at(&d->file, d, &name);
	if (rc)
		return rc;
	sockname_of_daemon(&d->space, &name);
	rc = listen_at(&d->name, d, &name);
	return rc == -EADDRINUSE && d->file.fd >= 0 && !is_daemons(d, &name) ? 0 : rc;
}

int daemon_init(struct daemon *d, enum daemon_scope scope, const struct client_hooks *hooks)
{
	int rc;

	memset(d, 0, sizeof(*d));
	d->scope = scope;
	d->uid = geteuid();
	d->hooks = hooks;
	list_init(&d->clients);
	list_init(&d->disconnecting);
	list_init(&d->memberships);
	list_init(&d->port_groups);
	idle_exit_init(&d->idle_exit, &d->loop, scope == DAEMON_OF_SYSTEM);

	d->file.fd = d->file.reserve_fd = d->name.fd = d->name.reserve_fd = d->lock_fd = -1;

	rc = scope == DAEMON_OF_SYSTEM ? sockname_space_of_system(&d->space)
				       : sockname_space_of_user(d->uid, &d->space);
	if (!rc)
		rc = sockname_make_dir(&d->space, &d->lock_fd);
	if (!rc)
		rc = loop_init(&d->loop);
	if (!rc)
		rc = watch_signals(d);
	return rc;
}

int daemon_listen(struct daemon *d)
{
	int rc = listen_everywhere(d);

	if (!rc)
		idle_exit_await_first(&d->idle_exit);
	return rc;
}

void daemon_run(struct daemon *d)
{
	while (!d->ended && !d->idle_exit.over) {
		loop_turn(&d->loop);
		client_free_disconnecting(d);
	}
}

void daemon_stop_listening(struct daemon *d)
{
	listen_fini(&d->file);
	listen_fini(&d->name);
}

void daemon_fini(struct daemon *d)
{
	sockname_clean_dir(&d->space);
	if (d->lock_fd >= 0)
		close(d->lock_fd);
	close(d->signal_fd);
	loop_fini(&d->loop);
}
