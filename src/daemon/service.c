/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3
#define FDS_MAX	 4096

static unsigned fd_count;
static char *names[FDS_MAX]; /* NULL: none */
static bool taken[FDS_MAX];
static struct sockaddr_un manager;
static socklen_t manager_len; /* 0: there is none */

/* Digits only, up to max; -1 if it is anything else. */
static long read_number(const char *variable, long max)
{
	const char *text = secure_getenv(variable);
	char *end;
	long value;

	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || value > max ? -1 : value;
}

/* If there are fewer names than descriptors, the last ones have none. */
static void read_names(void)
{
	const char *text = secure_getenv("LISTEN_FDNAMES");
	char *copy = text && fd_count > 0 ? strdup(text) : NULL;

	for (unsigned i = 0; copy && i < fd_count; i++)
		names[i] = strsep(&copy, ":");
}

static void find_manager(void)
{
	const char *path = secure_getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(manager.sun_path) || (*path != '/' && *path != '@'))
		return;
	manager.sun_family = AF_UNIX;
	memcpy(manager.sun_path, path, len);
	if (*path == '@')
		manager.sun_path[0] = '\0';
	manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

unsigned service_begin(void)
{
	long count = -1;

	find_manager();
	if (read_number("LISTEN_PID", 1L << 30) == getpid())
		count = read_number("LISTEN_FDS", FDS_MAX);
	fd_count = count > 0 ? (unsigned)count : 0;
	read_names();
	for (unsigned i = 0; i < fd_count; i++)
		taken[i] = fcntl(FIRST_FD + (int)i, F_SETFD, FD_CLOEXEC) < 0;
	return fd_count;
}

bool service_is_managed(void)
{
	return manager_len != 0;
}

void service_each(bool (*take)(int fd, const char *name, void *arg), void *arg)
{
	for (unsigned i = 0; i < fd_count; i++) {
		if (!taken[i])
			taken[i] = take(FIRST_FD + (int)i, names[i] ? names[i] : "", arg);
	}
}

static bool drop(int fd, const char *name, void *arg)
{
	close(fd);
	return true;
}

void service_drop_rest(void)
{
	service_each(drop, NULL);
}

static int open_sender(void)
{
	const struct timeval timeout = { .tv_sec = SERVICE_NOTIFY_MS / 1000 };
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return sock;
}

int service_notify(const char *message, const int *fds, unsigned count)
{
	struct iovec iov = { (void *)message, strlen(message) };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(SERVICE_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct msghdr mh = { &manager, manager_len, &iov, 1, NULL, 0, 0 };
	int sock, rc = 0;

	if (!manager_len)
		return -ENOTCONN;
	sock = open_sender();
	if (sock < 0)
		return sock;
	if (count) {
		struct cmsghdr *c = &control.align;

		mh.msg_control = control.room;
		mh.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	while (sendmsg(sock, &mh, MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		rc = -errno;
		break;
	}
	close(sock);
	return rc;
}
