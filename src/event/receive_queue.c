/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/receive_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "event/close_pool.h"

/* With fewer descriptors than this in all, a quarter of them is the reserve. */
#define LIMIT_USUAL 1024

#define MESSAGE_FDS (FDMSG_FDS_ROOM + 1) /* of a message, and a pidfd of its sender */

void receive_queue_limit_fds(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max < LIMIT_USUAL ? limit.rlim_max / 4 * 3
						      : limit.rlim_max - MESSAGE_FDS;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Returns what the limit was. */
static struct rlimit raise_limit(void)
{
	struct rlimit before = { RLIM_INFINITY, RLIM_INFINITY }, all;

	if (getrlimit(RLIMIT_NOFILE, &before))
		return before;
	all = before;
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_NOFILE, &all);
	return before;
}

/* Restores the limit after a receive. */
static void take_back(uid_t uid, const struct rlimit *before, struct fdmsg *m)
{
	bool beyond = false;

	for (unsigned i = 0; i < m->fd_count; i++)
		beyond |= (rlim_t)m->fds[i] >= before->rlim_cur;
	if (!beyond)
		return;
	receive_queue_close_fds(uid, m);
	m->fds_lost = true;
}

int receive_queue_take(uid_t uid, int sock, struct fdmsg *out)
{
	struct rlimit before = raise_limit();
	ssize_t len = fdmsg_recv_bytes(sock, 0, &out->body, sizeof(out->body), out);

	setrlimit(RLIMIT_NOFILE, &before);
	if (len < 0)
		return (int)len;
	take_back(uid, &before, out);
	if (len > 0)
		return 0;
	receive_queue_close_fds(uid, out);
	return -ECONNRESET;
}

void receive_queue_close_fds(uid_t uid, struct fdmsg *m)
{
	for (unsigned i = 0; i < m->fd_count; i++)
		close_pool_close(uid, m->fds[i]);
	m->fd_count = 0;
}

ssize_t receive_queue_take_bytes(uid_t uid, int sock, void *bytes, size_t size)
{
	struct rlimit before = raise_limit();
	struct fdmsg m;
	ssize_t len = fdmsg_recv_bytes(sock, 0, bytes, size, &m);

	setrlimit(RLIMIT_NOFILE, &before);
	if (len >= 0)
		receive_queue_close_fds(uid, &m);
	return len;
}

bool receive_queue_is_unix(int fd, int type)
{
	int has_domain, has_type;
	socklen_t domain_len = sizeof(has_domain), type_len = sizeof(has_type);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &has_domain, &domain_len) &&
	       has_domain == AF_UNIX &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &has_type, &type_len) && has_type == type;
}

bool receive_queue_is_anonymous(int fd)
{
	struct statx s;

	/*
	 * All others have a type there: files, pipes, sockets, devices. What a file system's server
	 * would have to be asked for, and may never answer, is not wanted.
	 */
	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &s) &&
	       !(s.stx_mode & S_IFMT);
}
