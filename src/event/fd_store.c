/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/fd_store.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/fdmsg.h"
#include "event/close_pool.h"
#include "event/receive_queue.h"

#define QUEUE_BYTES (1 << 20)

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
	int rc = fdmsg_send(fd_store, "", 1, fds, count);

	return rc == -EAGAIN ? -ENOBUFS : rc;
}

/* Copies what the next message has. Returns how many; 0: there is none; -errno. */
static int look_at_next(int fd_store, int *fds, unsigned max)
{
	struct fdmsg m;
	char byte;
	ssize_t len = fdmsg_recv_bytes(fd_store, MSG_PEEK, &byte, 1, &m);
	int rc;

	if (len < 0)
		return len == -EAGAIN ? 0 : (int)len;
	/* A process that holds the store may have put anything into it. */
	if (m.fds_lost)
		rc = -EMFILE;
	else if (m.len != 1 || !m.fd_count)
		rc = -EPROTO;
	else
		rc = m.fd_count > max ? -E2BIG : (int)m.fd_count;
	if (rc < 0)
		receive_queue_close_fds(geteuid(), &m);
	for (unsigned i = 0; i < m.fd_count; i++)
		fds[i] = m.fds[i];
	return rc;
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
