/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbatimd/listening.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/client.h"
#include "daemon/daemon.h"
#include "daemon/service.h"
#include "event/close_pool.h"

/* The process that has the abstract name may be a trusted verbatimd, in another mount namespace. */
static bool is_daemons(const struct daemon *d, const struct sockname *name)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	bool is_ours = sock < 0 ||
		       connect(sock, (const struct sockaddr *)&name->addr, name->len) < 0 ||
		       getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
		       peer.uid == 0 || peer.uid == d->uid;

	if (sock >= 0)
		close(sock);
	/* Only here: a program that starts a user's daemon takes its output for a failure. */
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
	sockname_of_daemon(&d->space, &name);
	rc = listen_at(&d->name, d, &name);
	return rc == -EADDRINUSE && d->file.fd >= 0 && !is_daemons(d, &name) ? 0 : rc;
}

void listening_end(struct daemon *d)
{
	listen_fini(&d->file);
	listen_fini(&d->name);
}
