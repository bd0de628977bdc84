/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* its struct tcp_info is longer than the C library's */
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/gid.h"
#include "base/syscall.h"

#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_EACH_S 5
#define KEEPALIVE_TRIES	 4
#define SEGMENT_DEFAULT	 536 /* RFC 1122 4.2.2.6 */
#define DRAIN_BYTES	 16384
#define DRAIN_READS	 64
/* values of tcpi_state, which no header of the kernel has for programs */
#define STATE_CLOSE	 7
#define STATE_CLOSE_WAIT 8

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

int tcp_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	int rc = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;

	if (!rc)
		rc = set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (!rc)
		rc = set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (!rc)
		rc = set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	if (!rc)
		rc = set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EACH_S);
	if (!rc)
		rc = set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES);
	return rc ? rc : set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_PEER_GONE_MS);
}

uint32_t tcp_segment_bytes(int fd)
{
	int bytes = 0;
	socklen_t len = sizeof(bytes);

	if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &len) < 0 || bytes <= 0)
		return SEGMENT_DEFAULT;
	return (uint32_t)bytes;
}

void tcp_peer(int fd, uint8_t address[16])
{
	struct sockaddr_storage name = { 0 };
	socklen_t len = sizeof(name);

	memset(address, 0, 16);
	if (getpeername(fd, (struct sockaddr *)&name, &len) < 0)
		return;
	if (name.ss_family == AF_INET)
		gid_from_v4(&((struct sockaddr_in *)&name)->sin_addr, address);
	else
		memcpy(address, &((struct sockaddr_in6 *)&name)->sin6_addr, 16);
}

/* The result of a call that failed. */
static ssize_t verdict(void)
{
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM)
		return TCP_WOULD_BLOCK;
	if (errno == EFAULT)
		cause_report(CAUSE_MEMORY_FAULT_LOCAL, 0, "a TCP socket of iWARP");
	return TCP_LOST;
}

ssize_t tcp_send(int fd, const struct iovec *pieces, int count, bool more)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)pieces,
		.msg_iovlen = (size_t)count,
	};
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
	ssize_t sent = sys_sendmsg(fd, &message, flags);

	return sent > 0 ? sent : sent == 0 ? TCP_WOULD_BLOCK : verdict();
}

ssize_t tcp_receive(int fd, const struct iovec *pieces, int count)
{
	struct msghdr message = {
		.msg_iov = (struct iovec *)pieces,
		.msg_iovlen = (size_t)count,
	};
	ssize_t got = sys_recvmsg(fd, &message, MSG_DONTWAIT);

	return got > 0 ? got : got == 0 ? TCP_END : verdict();
}

/* All of it is 0 if the kernel does not tell. */
static struct tcp_info info_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
	return info;
}

uint64_t tcp_bytes_moved(int fd)
{
	struct tcp_info info = info_of(fd);

	return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

bool tcp_peer_has_closed(int fd)
{
	uint8_t state = info_of(fd).tcpi_state;

	return state == STATE_CLOSE || state == STATE_CLOSE_WAIT;
}

bool tcp_is_tls(int fd)
{
	char name[16] = "";
	socklen_t len = sizeof(name) - 1;

	return !getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &len) && !strcmp(name, "tls");
}

bool tcp_is_acknowledged(int fd)
{
	int bytes = 0;

	return ioctl(fd, SIOCOUTQ, &bytes) < 0 || !bytes || info_of(fd).tcpi_state == STATE_CLOSE;
}

void tcp_half_close(int fd)
{
	shutdown(fd, SHUT_WR);
}

bool tcp_drain(int fd)
{
	char dropped[DRAIN_BYTES];

	for (int i = 0; i < DRAIN_READS; i++) {
		ssize_t got = recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT);

		if (got == 0)
			return true;
		if (got < 0)
			return verdict() == TCP_LOST;
	}
	return false;
}

/*
 * By system call, as a fork's child calls it: getsockopt() is librspreload's, and may wait for a
 * lock that another handler of the fork has yet to release.
 */
static bool is_socket(int fd)
{
	int type;
	socklen_t len = sizeof(type);

	return !syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len);
}

void tcp_identify(int fd, struct tcp_identity *out)
{
	struct stat status;

	*out = (struct tcp_identity){ 0 };
	if (!fstat(fd, &status))
		*out = (struct tcp_identity){ status.st_dev, status.st_ino };
}

void tcp_close_copy(int fd, const struct tcp_identity *identity)
{
	struct stat status;

	/* In this order: fstat(2) of a file of FUSE waits for the process that serves it. */
	if (is_socket(fd) && !fstat(fd, &status) && status.st_dev == identity->device &&
	    status.st_ino == identity->inode)
		close(fd);
}
