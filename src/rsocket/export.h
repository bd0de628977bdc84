/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Export - the exported names of rsockets: those of <rdma/rsocket.h>, and repoll, which the header
 * of Debian 12 does not declare.
 */
#ifndef RSOCKET_EXPORT_H
#define RSOCKET_EXPORT_H

#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#define RSOCKET_EXPORT __attribute__((visibility("default")))

/*
 * An epoll instance that takes rsockets, too. For rsockets it is level-triggered, whatever the
 * events ask for. rclose closes it. Calls and errors are those of epoll(7).
 */
int repoll_create(int size);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int max, int timeout);

/* The ABI's convention from the internal one: -errno becomes -1 and errno. */
static inline ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

#endif
