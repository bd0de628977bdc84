/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rsmore - adds epoll, accept4 and fcntl64 to the librspreload.so of rdma-core 44.
 *
 * librspreload gives programs a placeholder (a descriptor of /dev/null) for each rsocket, and
 * interposes the socket calls, poll and select. Newer versions interpose epoll, accept4 and
 * fcntl64, too. This library comes after librspreload in LD_PRELOAD, and builds those from
 * accept, fcntl and poll.
 *
 * A placeholder shows by the error of the system: EPERM from epoll_ctl, ENOTSOCK from accept4.
 * Other descriptors go straight to the C library. In an epoll set placeholders are level-triggered,
 * whatever their events ask for. A closed one leaves the set when the next wait finds it closed.
 *
 * Any thread. No thread holds the mutex in a call that may wait.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT	  __attribute__((visibility("default")))
#define POLL_BITS 0x3fff /* the events that poll and epoll have in common */

/* The next definitions in the order of symbol search. */
static struct {
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *length, int flags);
	int (*epoll_ctl)(int epoll, int op, int fd, struct epoll_event *event);
	int (*epoll_pwait)(int epoll, struct epoll_event *events, int max, int timeout,
			   const sigset_t *mask);
} real;

/* A placeholder in an epoll set. */
struct member {
	int epoll, fd;
	struct epoll_event event;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the members */
static struct member *members;
static size_t member_count, member_room;

static void find_real(void)
{
	real.accept4 = dlsym(RTLD_NEXT, "accept4");
	real.epoll_ctl = dlsym(RTLD_NEXT, "epoll_ctl");
	real.epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
}

static void init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_real);
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *length, int flags)
{
	int rc;

	init();
	rc = real.accept4(fd, addr, length, flags);
	if (rc >= 0 || errno != ENOTSOCK)
		return rc;
	rc = accept(fd, addr, length);
	if (rc >= 0 && (flags & SOCK_NONBLOCK))
		fcntl(rc, F_SETFL, O_NONBLOCK);
	return rc;
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return fcntl(fd, cmd, arg);
}

/* Sets */

static struct member *find(int epoll, int fd)
{
	for (size_t i = 0; i < member_count; i++)
		if (members[i].epoll == epoll && members[i].fd == fd)
			return &members[i];
	return NULL;
}

static int add(int epoll, int fd, const struct epoll_event *event)
{
	struct member *larger;

	if (member_count == member_room) {
		size_t room = member_room ? 2 * member_room : 64;

		larger = realloc(members, room * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		members = larger;
		member_room = room;
	}
	members[member_count++] = (struct member){ epoll, fd, *event };
	return 0;
}

/* EPOLL_CTL_ADD replaces a member of the same number, whose descriptor was closed. */
static int change(struct member *member, int epoll, int op, int fd, const struct epoll_event *event)
{
	if (op == EPOLL_CTL_DEL) {
		*member = members[--member_count];
		return 0;
	}
	if (!member)
		return add(epoll, fd, event);
	member->event = *event;
	return 0;
}

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct member *member;
	int rc;

	init();
	rc = real.epoll_ctl(epoll, op, fd, event);
	if (!rc || errno != EPERM || (!event && op != EPOLL_CTL_DEL))
		return rc;
	pthread_mutex_lock(&mutex);
	member = find(epoll, fd);
	rc = op != EPOLL_CTL_ADD && !member ? -ENOENT : change(member, epoll, op, fd, event);
	pthread_mutex_unlock(&mutex);
	if (!rc)
		return 0;
	errno = -rc;
	return -1;
}

/*
 * The epoll descriptor and then the members of its set; returns how many, 0 if there is no member.
 * The caller frees `fds`, which `events` is part of.
 */
static nfds_t collect(int epoll, struct pollfd **fds, struct epoll_event **events)
{
	nfds_t count = 0;

	pthread_mutex_lock(&mutex);
	for (size_t i = 0; i < member_count; i++)
		count += members[i].epoll == epoll;
	*fds = count ? malloc((count + 1) * (sizeof(**fds) + sizeof(**events))) : NULL;
	if (*fds) {
		nfds_t at = 0;

		*events = (struct epoll_event *)(*fds + count + 1);
		(*fds)[at++] = (struct pollfd){ .fd = epoll, .events = POLLIN };
		for (size_t i = 0; i < member_count; i++) {
			if (members[i].epoll != epoll)
				continue;
			(*events)[at] = members[i].event;
			(*fds)[at++] = (struct pollfd){
				.fd = members[i].fd,
				.events = (short)(members[i].event.events & POLL_BITS),
			};
		}
	}
	pthread_mutex_unlock(&mutex);
	return *fds ? count + 1 : 0;
}

static void forget(int epoll, int fd)
{
	struct member *member;

	pthread_mutex_lock(&mutex);
	member = find(epoll, fd);
	if (member)
		*member = members[--member_count];
	pthread_mutex_unlock(&mutex);
}

/* Disables a member with EPOLLONESHOT after it was reported. */
static void disable_oneshot(int epoll, int fd, const struct epoll_event *event)
{
	struct member *member;

	if (!(event->events & EPOLLONESHOT))
		return;
	pthread_mutex_lock(&mutex);
	member = find(epoll, fd);
	if (member)
		member->event.events = 0;
	pthread_mutex_unlock(&mutex);
}

static int report(int epoll, const struct pollfd *fds, const struct epoll_event *from, nfds_t count,
		  struct epoll_event *events, int max)
{
	int n = 0;

	if (fds[0].revents) {
		n = real.epoll_pwait(epoll, events, max > 1 ? max / 2 : 1, 0, NULL);
		n = n > 0 ? n : 0;
	}
	for (nfds_t i = 1; i < count && n < max; i++) {
		if (fds[i].revents & POLLNVAL) {
			forget(epoll, fds[i].fd);
		} else if (fds[i].revents && from[i].events) {
			events[n].events = (uint32_t)fds[i].revents;
			events[n++].data = from[i].data;
			disable_oneshot(epoll, fds[i].fd, &from[i]);
		}
	}
	return n;
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
		       const sigset_t *mask)
{
	struct epoll_event *from;
	struct pollfd *fds;
	sigset_t before;
	nfds_t count;
	int n;

	init();
	count = max > 0 ? collect(epoll, &fds, &from) : 0;
	if (!count)
		return real.epoll_pwait(epoll, events, max, timeout, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &before);
	do {
		n = poll(fds, count, timeout);
		if (n > 0)
			n = report(epoll, fds, from, count, events, max);
	} while (!n && timeout < 0);
	if (mask)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	free(fds);
	return n;
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	return epoll_pwait(epoll, events, max, timeout, NULL);
}
