/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interposes socket, send, recv and their kin: for NETLINK_RDMA this library answers in the place
 * of the kernel. Other sockets cost a load, once a program has opened one of those.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "preload/endpoint.h"
#include "preload/real.h"

static inline bool concerns(int fd)
{
	return __builtin_expect(atomic_load_explicit(&endpoint_any, memory_order_relaxed), 0) &&
	       endpoint_is(fd);
}

static int result_of(ssize_t rc)
{
	if (rc >= 0)
		return (int)rc;
	errno = (int)-rc;
	return -1;
}

PRELOAD_EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		return result_of(endpoint_open(type));
	return real()->socket(domain, type, protocol);
}

static __attribute__((noinline)) ssize_t send_answered(int fd, const void *bytes, size_t len)
{
	struct iovec part = { (void *)bytes, len };

	return result_of(endpoint_send(fd, &(struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 }));
}

PRELOAD_EXPORT ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	return concerns(fd) ? send_answered(fd, bytes, len) : real()->send(fd, bytes, len, flags);
}

PRELOAD_EXPORT ssize_t sendto(int fd, const void *bytes, size_t len, int flags,
			      __CONST_SOCKADDR_ARG to, socklen_t to_len)
{
	return concerns(fd) ? send_answered(fd, bytes, len)
			    : real()->sendto(fd, bytes, len, flags, to, to_len);
}

PRELOAD_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return concerns(fd) ? result_of(endpoint_send(fd, message))
			    : real()->sendmsg(fd, message, flags);
}

/* To the program it comes from the kernel. */
static void show_kernel(void *from, socklen_t len)
{
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (from)
		memcpy(from, &kernel, len < sizeof(kernel) ? len : sizeof(kernel));
}

static __attribute__((noinline)) ssize_t receive_answer(int fd, struct msghdr *message, int flags)
{
	ssize_t len;

	endpoint_refill(fd);
	len = real()->recvmsg(fd, message, flags);
	if (len < 0)
		return len;
	show_kernel(message->msg_name, message->msg_namelen);
	endpoint_refill(fd);
	return len;
}

PRELOAD_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return concerns(fd) ? receive_answer(fd, message, flags)
			    : real()->recvmsg(fd, message, flags);
}

static ssize_t receive_from(int fd, void *bytes, size_t room, int flags, void *from,
			    socklen_t *from_len)
{
	struct iovec part = { bytes, room };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_name = from };
	ssize_t len;

	if (from && from_len)
		message.msg_namelen = *from_len;
	len = receive_answer(fd, &message, flags);
	if (len >= 0 && from && from_len)
		*from_len = message.msg_namelen;
	return len;
}

PRELOAD_EXPORT ssize_t recvfrom(int fd, void *restrict bytes, size_t room, int flags,
				__SOCKADDR_ARG from, socklen_t *restrict from_len)
{
	if (concerns(fd))
		return receive_from(fd, bytes, room, flags, from.__sockaddr__, from_len);
	return real()->recvfrom(fd, bytes, room, flags, from, from_len);
}

PRELOAD_EXPORT ssize_t recv(int fd, void *bytes, size_t room, int flags)
{
	if (concerns(fd))
		return receive_from(fd, bytes, room, flags, NULL, NULL);
	return real()->recv(fd, bytes, room, flags);
}

/* Programs compiled with _FORTIFY_SOURCE call these. */
_Noreturn void __chk_fail(void);
PRELOAD_EXPORT ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags);
PRELOAD_EXPORT ssize_t __recvfrom_chk(int fd, void *restrict bytes, size_t len, size_t room,
				      int flags, __SOCKADDR_ARG from, socklen_t *restrict from_len);

ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags)
{
	if (len > room)
		__chk_fail();
	return recv(fd, bytes, len, flags);
}

ssize_t __recvfrom_chk(int fd, void *restrict bytes, size_t len, size_t room, int flags,
		       __SOCKADDR_ARG from, socklen_t *restrict from_len)
{
	if (len > room)
		__chk_fail();
	return recvfrom(fd, bytes, len, flags, from, from_len);
}
