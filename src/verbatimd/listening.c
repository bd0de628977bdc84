/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/listening.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ctl/deadline.h"
#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/service.h"
#include "event/close_pool.h"

#define GIVE_WAY_MS 500
#define PAUSE_MS    5

enum holder { HOLDER_UNKNOWN, HOLDER_DAEMON, HOLDER_OTHER };

static enum holder find_holder(const struct sockname *name, uid_t uid, struct ucred *peer)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(*peer);
	bool is_known = sock >= 0 &&
			!connect(sock, (const struct sockaddr *)&name->addr, name->len) &&
			!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &len);

	if (sock >= 0)
		close(sock);
	if (!is_known)
		return HOLDER_UNKNOWN;
	return peer->uid == 0 || peer->uid == uid ? HOLDER_DAEMON : HOLDER_OTHER;
}

/* Only of --system: a program that starts a user's daemon takes its output for a failure. */
static void explain_holder(const struct daemon *d, enum holder holder, const struct ucred *peer)
{
	if (d->scope != DAEMON_OF_SYSTEM)
		return;
	if (holder == HOLDER_OTHER)
		fprintf(stderr,
			"verbatimd: the socket @%s is held by process %d of user %u, which is not "
			"verbatimd; only those are served who see %s\n",
			d->space.text, (int)peer->pid, (unsigned)peer->uid, d->space.dir);
	else
		fprintf(stderr,
			"verbatimd: the socket @%s is held by a process that does not accept "
			"connections; only those are served who see %s\n",
			d->space.text, d->space.dir);
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
	    !sockname_equal(&actual, &w->name) ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens)
		return false;
	w->fd = fd;
	return true;
}

static int admit(struct daemon *d, int sock, const struct ucred *peer)
{
	if (d->scope != DAEMON_OF_SYSTEM && peer->uid != d->uid)
		return -EACCES;
	if (d->scope == DAEMON_OF_SYSTEM && users_has_share(&d->users, peer->uid, sock))
		return -EDQUOT;
	return close_pool_is_behind(peer->uid) ? -EMFILE : client_create(d, sock, peer);
}

static int on_file_connection(struct listener *l, int sock, const struct ucred *peer)
{
	return admit(container_of(l, struct daemon, file), sock, peer);
}

static int on_name_connection(struct listener *l, int sock, const struct ucred *peer)
{
	return admit(container_of(l, struct daemon, name), sock, peer);
}

/* Takes the socket that the service manager has for the name, or binds one. 0 or -errno. */
static int listen_at(struct listener *l, struct daemon *d, const struct sockname *name)
{
	struct wanted_socket wanted = { .name = *name, .fd = -1 };
	int rc;

	l->loop = &d->loop;
	service_each(take_socket, &wanted);
	if (wanted.fd < 0)
		return listen_init(l, name, d->scope == DAEMON_OF_SYSTEM);
	rc = listen_take(l, wanted.fd);
	if (rc)
		close(wanted.fd);
	return rc;
}

/*
 * The process that has the abstract name may be a trusted verbatimd, in another mount namespace,
 * which accepts connections at once, or when it has begun, or is about to end. A process that does
 * not in GIVE_WAY_MS (it does not listen, or its queue is full) cannot serve anybody, whoever it
 * is. 0, also without the name; or -errno.
 */
static int listen_at_name(struct daemon *d)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	int64_t deadline_ns = deadline_in_ms(GIVE_WAY_MS);
	enum holder holder = HOLDER_UNKNOWN;
	struct sockname name;
	struct ucred peer;

	sockname_of_daemon(&d->space, &name);
	while (holder == HOLDER_UNKNOWN) {
		int rc = listen_at(&d->name, d, &name);

		if (rc != -EADDRINUSE || d->file.fd < 0)
			return rc;
		holder = find_holder(&name, d->uid, &peer);
		if (holder == HOLDER_DAEMON)
			return rc;
		if (!deadline_left_ms(deadline_ns))
			break;
		nanosleep(&pause, NULL);
	}
	explain_holder(d, holder, &peer);
	return 0;
}

int listening_begin(struct daemon *d)
{
	struct sockname name;
	int rc = 0;

	d->file.on_connection = on_file_connection;
	d->name.on_connection = on_name_connection;
	if (sockname_of_daemon_file(&d->space, &name))
		rc = listen_at(&d->file, d, &name);
	if (rc || d->space.is_shared)
		return rc;
	return listen_at_name(d);
}

void listening_end(struct daemon *d)
{
	listen_fini(&d->file);
	listen_fini(&d->name);
}
