/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/fdmsg.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ctl/deadline.h"

#define REFUSED_MS 10 /* between two tries of what the kernel refuses */

#define OTHERS_BYTES 4096 /* for credentials, a security label, a pidfd and timestamps */
#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04 /* Linux 6.5 */
#endif

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(FDMSG_FDS_ROOM * sizeof(int)) + OTHERS_BYTES];
};

int fdmsg_send(int sock, const void *message, size_t len, const int *fds, unsigned fd_count)
{
	struct iovec iov = { .iov_base = (void *)message, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union control control;

	if (fd_count) {
		memset(&control, 0, sizeof(control));
		mh.msg_control = control.room;
		mh.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));

		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	while (sendmsg(sock, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

bool fdmsg_is_delayed(int rc)
{
	return rc == -EAGAIN || rc == -ETOOMANYREFS || rc == -ENOBUFS || rc == -ENOMEM;
}

bool fdmsg_wait_to_send(int sock, int rc, int64_t deadline_ns)
{
	const struct timespec pause = { .tv_nsec = REFUSED_MS * 1000000 };
	struct pollfd p = { .fd = sock, .events = POLLOUT };

	if (!deadline_left_ms(deadline_ns))
		return false;
	/* What the kernel refuses, POLLOUT does not tell of. */
	if (rc != -EAGAIN)
		nanosleep(&pause, NULL);
	else
		poll(&p, 1, deadline_left_ms(deadline_ns));
	return true;
}

int fdmsg_send_until(int sock, const void *message, size_t len, const int *fds, unsigned fd_count,
		     int64_t deadline_ns)
{
	int rc;

	do
		rc = fdmsg_send(sock, message, len, fds, fd_count);
	while (fdmsg_is_delayed(rc) && fdmsg_wait_to_send(sock, rc, deadline_ns));
	return rc;
}

static void collect_fds(struct msghdr *mh, struct fdmsg *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET ||
		    (c->cmsg_type != SCM_RIGHTS && c->cmsg_type != SCM_PIDFD))
			continue;

		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (c->cmsg_type == SCM_RIGHTS && out->fd_count < FDMSG_FDS_ROOM)
				out->fds[out->fd_count++] = fd;
			else if (fd >= 0)
				close(fd);
		}
	}
}

ssize_t fdmsg_recv_bytes(int sock, int flags, void *bytes, size_t size, struct fdmsg *out)
{
	struct iovec iov = { .iov_base = bytes, .iov_len = size };
	union control control;
	struct msghdr mh;
	ssize_t len;

	do {
		mh = (struct msghdr){
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.room,
			.msg_controllen = sizeof(control.room),
		};
		len = recvmsg(sock, &mh, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (len < 0 && errno == EINTR);
	if (len < 0)
		return -errno;

	out->fd_count = 0;
	collect_fds(&mh, out);
	out->fds_lost = mh.msg_flags & MSG_CTRUNC && out->fd_count < FDMSG_FDS_ROOM;
	out->len = mh.msg_flags & MSG_TRUNC ? size + 1 : (size_t)len;
	return len;
}

int fdmsg_recv(int sock, struct fdmsg *out)
{
	union ctl_message body;
	ssize_t len = fdmsg_recv_bytes(sock, 0, &body, sizeof(body), out);

	if (len < 0)
		return (int)len;
	if (len == 0) {
		fdmsg_close_fds(out);
		return -ECONNRESET;
	}
	memcpy(&out->body, &body, (size_t)len);
	return 0;
}

int fdmsg_wait(int sock, int64_t deadline_ns, struct fdmsg *out)
{
	for (;;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		int rc = fdmsg_recv(sock, out);

		if (rc != -EAGAIN)
			return rc;
		rc = poll(&p, 1, deadline_left_ms(deadline_ns));
		if (rc == 0)
			return -ETIMEDOUT;
		if (rc < 0 && errno != EINTR)
			return -errno;
	}
}

void fdmsg_close_fds(struct fdmsg *m)
{
	for (unsigned i = 0; i < m->fd_count; i++) {
		if (m->fds[i] >= 0)
			close(m->fds[i]);
	}
	m->fd_count = 0;
}

int fdmsg_take_fd(struct fdmsg *m, unsigned i)
{
	int fd = m->fds[i];

	m->fds[i] = -1;
	return fd;
}
