/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that are no cancellation points, and that no preloaded library replaces.
 *
 * The C library's blocking calls are cancellation points (pthreads(7)): a cancelled thread would
 * end there and leave our locks held. Programs do cancel threads that poll a CQ or post (rping its
 * CQ thread). These are the calls of the data path; slow verbs disable cancellation
 * (base/uncancelled.h).
 *
 * All return -1 and errno, as in their manual pages.
 */
#ifndef BASE_SYSCALL_H
#define BASE_SYSCALL_H

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* librspreload makes an rsocket of the C library's, for IPv4 and IPv6. */
static inline int sys_socket(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

static inline ssize_t sys_write(int fd, const void *bytes, size_t count)
{
	return syscall(SYS_write, fd, bytes, count);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t sys_send(int fd, const void *bytes, size_t count, int flags)
{
	return syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0);
}

static inline int sys_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return syscall(SYS_recvmsg, fd, message, flags);
}

/* epoll_wait(2) that does not wait. */
static inline int sys_epoll_poll(int epoll, struct epoll_event *events, int max)
{
	return (int)syscall(SYS_epoll_pwait, epoll, events, max, 0, NULL, 0);
}

/* No time-out: the layout of its struct timespec differs between ABIs. */
static inline int sys_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
	return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);
}

#endif
