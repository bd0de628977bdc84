/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/fd_store.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/fdmsg.h"
#include "event/close_pool.h"
#include "event/receive_queue.h"

#define QUEUE_BYTES (1 << 20)

/* As much as a message can have: a process that holds the store may have put anything into it. */
union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(FDMSG_FDS_ROOM * sizeof(int))];
};

/* A socket that is connected to itself takes messages from itself alone. */
static int connect_to_itself(int fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	char stray;

	/* Without a name the kernel chooses one that is free. */
	if (bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&name, len) < 0)
		return -errno;
	while (receive_queue_take_bytes(geteuid(), fd, &stray, sizeof(stray)) >= 0)
		;
	return 0;
}

int fd_store_create(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int bytes = QUEUE_BYTES, rc;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	rc = connect_to_itself(fd);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

int fd_store_add(int fd_store, const int *fds, unsigned count)
{
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	union control control;
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	memset(&control, 0, sizeof(control));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	while (sendmsg(fd_store, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return errno == EAGAIN ? -ENOBUFS : -errno;
	}
	return 0;
}

/* Copies what the next message has. Returns how many; 0: there is none; -errno. */
static int look_at_next(int fd_store, int *fds, unsigned max)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union control control;
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	struct cmsghdr *c;
	int got[FDMSG_FDS_ROOM], count, rc = 0;

	if (recvmsg(fd_store, &mh, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
		return errno == EAGAIN ? 0 : -errno;
	c = CMSG_FIRSTHDR(&mh);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return mh.msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
	count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(got, CMSG_DATA(c), (size_t)count * sizeof(int));
	if (mh.msg_flags & (MSG_CTRUNC | MSG_TRUNC))
		rc = mh.msg_flags & MSG_TRUNC ? -EPROTO : -EMFILE;
	else if ((unsigned)count > max)
		rc = -E2BIG;
	for (int i = 0; i < count; i++) {
		if (rc)
			close_pool_close(geteuid(), got[i]);
		else
			fds[i] = got[i];
	}
	return rc ? rc : count;
}

int fd_store_look(int fd_store, int *fds, unsigned max)
{
	int from_start = 0, as_usual = -1, count = 0, n;

	if (!receive_queue_is_unix(fd_store, SOCK_DGRAM))
		return -EPROTO;
	/* With it each MSG_PEEK goes on where the last one ended. */
	if (setsockopt(fd_store, SOL_SOCKET, SO_PEEK_OFF, &from_start, sizeof(from_start)) < 0)
		return -errno;
	while ((n = look_at_next(fd_store, fds + count, max - (unsigned)count)) > 0)
		count += n;
	setsockopt(fd_store, SOL_SOCKET, SO_PEEK_OFF, &as_usual, sizeof(as_usual));
	if (!n)
		return count;
	while (count)
		close_pool_close(geteuid(), fds[--count]);
	return n;
}
