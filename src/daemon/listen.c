/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/fdmsg.h"
#include "ctl/sockname.h"
#include "event/close_pool.h"

#define CALLS_PER_TURN	16
#define RESUME_AFTER_MS 100
#define HANG_UP_MS	2 /* in which a refused connection is usually closed */

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Sends the errno, and disconnects. */
static void refuse(uid_t uid, int sock, int status)
{
	struct ctl_welcome welcome = {
		.greeting = { .header = { .type = CTL_WELCOME, .seq = 1 },
			      .magic = CTL_MAGIC,
			      .version = CTL_VERSION },
		.status = status,
		.pid = getpid(),
	};

	fdmsg_send(sock, &welcome, sizeof(welcome), NULL, 0);
	close_pool_hang_up(uid, sock);
}

/* False: the other end is unknown, so the connection is refused. */
static bool get_caller(int sock, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &len))
		return true;
	refuse(geteuid(), sock, errno);
	return false;
}

static void take_call(struct listener *l, int sock)
{
	struct ucred peer;
	int rc;

	if (!get_caller(sock, &peer))
		return;
	rc = l->on_connection(l, sock, &peer);
	if (rc)
		refuse(peer.uid, sock, -rc);
}

static void pause_listening(struct listener *l, int ms)
{
	loop_change(l->loop, l->fd, 0, &l->on_call);
	loop_timer_arm(l->loop, &l->resume, ms);
}

/*
 * No descriptor is free: accepts a connection with the reserve descriptor, and refuses it. The next
 * connection waits until the close pool has closed this one, so that there is a reserve again.
 */
static void refuse_for_want_of_fds(struct listener *l)
{
	struct ucred peer;
	int sock;

	if (l->reserve_fd < 0) {
		pause_listening(l, RESUME_AFTER_MS);
		return;
	}
	close(l->reserve_fd);
	sock = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (sock >= 0 && get_caller(sock, &peer))
		refuse(peer.uid, sock, EMFILE);
	l->reserve_fd = open_reserve();
	pause_listening(l, HANG_UP_MS);
}

static void on_resume(struct loop_timer *timer)
{
	struct listener *l = container_of(timer, struct listener, resume);

	if (l->reserve_fd < 0)
		l->reserve_fd = open_reserve();
	if (l->reserve_fd < 0)
		pause_listening(l, RESUME_AFTER_MS);
	else
		loop_change(l->loop, l->fd, EPOLLIN, &l->on_call);
}

static void on_call(struct loop_source *source, uint32_t events)
{
	struct listener *l = container_of(source, struct listener, on_call);

	for (int i = 0; i < CALLS_PER_TURN; i++) {
		int sock;

		if (close_pool_is_full()) {
			pause_listening(l, RESUME_AFTER_MS);
			return;
		}
		sock = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (sock >= 0) {
			take_call(l, sock);
			continue;
		}
		switch (errno) {
		case EAGAIN:
			return;
		case EINTR:
		case ECONNABORTED:
			continue;
		case EMFILE:
			refuse_for_want_of_fds(l);
			return;
		default:
			pause_listening(l, RESUME_AFTER_MS);
			return;
		}
	}
}

static void prepare(struct listener *l)
{
	l->on_call.on_ready = on_call;
	loop_timer_init(&l->resume, on_resume);
	l->reserve_fd = open_reserve();
}

int listen_take(struct listener *l, int fd)
{
	int flags = fcntl(fd, F_GETFL), rc;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	prepare(l);
	rc = loop_watch(l->loop, fd, EPOLLIN, &l->on_call);
	if (rc)
		listen_fini(l);
	else
		l->fd = fd;
	return rc;
}

int listen_init(struct listener *l, const struct sockname *name, bool for_all)
{
	int rc;

	prepare(l);
	l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -errno;
	rc = sockname_bind(l->fd, name);
	/* Any user may connect: SO_PEERCRED tells which one. */
	if (!rc && *name->addr.sun_path && for_all && chmod(name->addr.sun_path, 0666) < 0)
		rc = -errno;
	if (!rc && listen(l->fd, SOMAXCONN) < 0)
		rc = -errno;
	if (!rc)
		rc = loop_watch(l->loop, l->fd, EPOLLIN, &l->on_call);
	if (rc)
		listen_fini(l);
	return rc;
}

void listen_fini(struct listener *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->reserve_fd >= 0)
		close(l->reserve_fd);
	l->fd = l->reserve_fd = -1;
}
