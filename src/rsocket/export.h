/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exported names of rsockets: those of <rdma/rsocket.h>, and repoll, which Debian's header does not
 * have.
 */
#ifndef RSOCKET_EXPORT_H
#define RSOCKET_EXPORT_H

#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#define RSOCKET_EXPORT __attribute__((visibility("default")))

/*
 * An epoll descriptor that takes rsockets, too, for which it is level-triggered whatever they ask
 * for. rclose ends it; its events are epoll's.
 */
int repoll_create(int size);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int max, int timeout);

/* The convention of sockets from ours: -1 and errno for -errno. */
static inline ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

#endif
