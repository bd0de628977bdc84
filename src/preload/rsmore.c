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
 * whatever their events ask for. A closed one leaves all sets: librspreload's close comes by here.
 *
 * A thread that waits polls the set, its placeholders, and an eventfd by which epoll_ctl of other
 * threads has it look at the placeholders anew. At the limit of descriptors it has no eventfd, and
 * looks anew every ANEW_MS.
 *
 * Any thread. No thread holds the mutex in a call that may wait or is a cancellation point
 * (pthreads(7)): what is written to or closed under it goes by syscall(2).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/syscall.h"

#define EXPORT	  __attribute__((visibility("default")))
#define POLL_BITS 0x3fff /* the events that poll and epoll have in common */
#define NUMBERS	  65536

/* The next definitions in the order of symbol search. */
static struct {
	int (*accept4)(int fd, struct sockaddr *addr, socklen_t *length, int flags);
	int (*close)(int fd);
	int (*epoll_ctl)(int epoll, int op, int fd, struct epoll_event *event);
	int (*epoll_pwait)(int epoll, struct epoll_event *events, int max, int timeout,
			   const sigset_t *mask);
} real;

/* A placeholder in an epoll set. */
struct member {
	int epoll, fd;
	bool is_disabled; /* EPOLLONESHOT: it was reported */
	uint64_t
		change; /* unlike that of all other members, and of this one before EPOLL_CTL_MOD */
	struct epoll_event event;
};

/*
 * The eventfd of threads that wait. It is written to once, when members have changed, and never
 * read, so none of these threads can take the event from another one. Then it is no longer
 * `wakeup`, and the last of them closes it.
 */
struct wakeup {
	int fd;
	unsigned waiters;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all but `marks` */
static struct member *members;
static size_t member_count, member_room;
static uint64_t changes;
static struct wakeup *wakeup; /* of who waits next; NULL: none yet */

/*
 * Numbers that close(2) has to look at: of sets, placeholders, eventfds. With others it takes no
 * lock, and may be called in a signal handler. A program that closes what another thread adds
 * orders the two itself.
 */
static _Atomic bool marks[NUMBERS];

/* The process whose sets these are. */
static pid_t owner;

static pid_t own_pid(void)
{
	return (pid_t)syscall(SYS_getpid);
}

static void mark(int fd, bool is_ours)
{
	if (fd < NUMBERS)
		atomic_store_explicit(&marks[fd], is_ours, memory_order_relaxed);
}

static bool is_marked(int fd)
{
	return fd >= NUMBERS || (fd >= 0 && atomic_load_explicit(&marks[fd], memory_order_relaxed));
}

static void before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&mutex);
}

/* Its descriptor is closed by others. A thread that waits has it until it looks. */
static void abandon_wakeup(void)
{
	struct wakeup *abandoned = wakeup;

	wakeup = NULL;
	mark(abandoned->fd, false);
	abandoned->fd = -1;
	if (!abandoned->waiters)
		free(abandoned);
}

/* The eventfd is the parent's, too. */
static void after_fork_in_child(void)
{
	owner = own_pid();
	if (wakeup) {
		syscall(SYS_close, wakeup->fd);
		abandon_wakeup();
	}
	pthread_mutex_unlock(&mutex);
}

static void find_real(void)
{
	real.accept4 = dlsym(RTLD_NEXT, "accept4");
	real.close = dlsym(RTLD_NEXT, "close");
	real.epoll_ctl = dlsym(RTLD_NEXT, "epoll_ctl");
	real.epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
	owner = own_pid();
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* Before main: the first call may be that of a child of vfork(2), which is not the owner. */
__attribute__((constructor)) static void init(void)
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
	/* fcntl would ask the rsocket; the placeholder is what a child gets. */
	if (rc >= 0 && (flags & SOCK_CLOEXEC))
		syscall(SYS_fcntl, rc, F_SETFD, FD_CLOEXEC);
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
	members[member_count++] = (struct member){ epoll, fd, false, ++changes, *event };
	mark(epoll, true);
	mark(fd, true);
	return 0;
}

static void make_readable(int fd)
{
	const eventfd_t one = 1;

	sys_write(fd, &one, sizeof(one));
}

/* All that wait look at the members anew. */
static void wake(void)
{
	if (!wakeup || !wakeup->waiters)
		return;
	make_readable(wakeup->fd);
	wakeup = NULL;
}

static int change(int epoll, int op, int fd, const struct epoll_event *event)
{
	struct member *member = find(epoll, fd);
	int rc = 0;

	if (!member != (op == EPOLL_CTL_ADD))
		return member ? -EEXIST : -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		*member = members[--member_count];
		return 0;
	}
	if (member)
		*member = (struct member){ epoll, fd, false, ++changes, *event };
	else
		rc = add(epoll, fd, event);
	wake();
	return rc;
}

/* librspreload answers for its placeholders, which are of /dev/null. */
static bool is_rsocket(int fd)
{
	int type;
	socklen_t length = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) || errno != ENOTSOCK;
}

EXPORT int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	int rc;

	init();
	rc = real.epoll_ctl(epoll, op, fd, event);
	if (!rc || errno != EPERM || (!event && op != EPOLL_CTL_DEL))
		return rc;
	if (op == EPOLL_CTL_ADD && !is_rsocket(fd)) {
		errno = EPERM; /* a file, as Linux says: libevent and others count on it */
		return rc;
	}
	pthread_mutex_lock(&mutex);
	rc = change(epoll, op, fd, event);
	pthread_mutex_unlock(&mutex);
	if (!rc)
		return 0;
	errno = -rc;
	return -1;
}

/* Before the number is free: it may be another thread's at once. */
static void forget(int fd)
{
	pthread_mutex_lock(&mutex);
	mark(fd, false);
	for (size_t i = member_count; i-- > 0;)
		if (members[i].fd == fd || members[i].epoll == fd)
			members[i] = members[--member_count];
	if (wakeup && wakeup->fd == fd) { /* a program that closes all numbers */
		make_readable(fd);
		abandon_wakeup();
	}
	pthread_mutex_unlock(&mutex);
}

/*
 * The child of vfork(2) has the memory of its parent, but descriptors of its own: what it closes
 * stays open in the parent, and in the parent's sets.
 */
EXPORT int close(int fd)
{
	init();
	if (is_marked(fd) && own_pid() == owner)
		forget(fd);
	return real.close(fd);
}

/* Waiting */

#define MEMBERS_FROM 2
#define ANEW_MS	     100

/* A set, the eventfd, the placeholders of the set. */
struct snapshot {
	nfds_t count;
	struct pollfd *fds;
	uint64_t *changes;     /* of the member at the same place */
	struct wakeup *wakeup; /* NULL: neither memory nor descriptors were left */
	bool is_partial;       /* it lacks the eventfd, or for want of memory the placeholders */
	struct pollfd few[MEMBERS_FROM]; /* no memory is allocated for a set without placeholders */
};

/* The mutex is held. NULL: neither memory nor descriptors are left. */
static struct wakeup *get_wakeup(void)
{
	if (!wakeup) {
		struct wakeup *made = malloc(sizeof(*made));
		int fd = made ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;

		if (fd < 0) {
			free(made);
			return NULL;
		}
		*made = (struct wakeup){ .fd = fd };
		mark(fd, true);
		wakeup = made;
	}
	wakeup->waiters++;
	return wakeup;
}

static void put_wakeup(struct wakeup *put)
{
	if (--put->waiters || put == wakeup)
		return;
	if (put->fd >= 0) {
		mark(put->fd, false);
		syscall(SYS_close, put->fd);
	}
	free(put);
}

static bool is_in(const struct member *member, int epoll)
{
	return member->epoll == epoll && !member->is_disabled;
}

/* Room for so many descriptors; without memory for those that are always there alone. */
static nfds_t make_room(struct snapshot *snapshot, nfds_t count)
{
	size_t each = sizeof(*snapshot->fds) + sizeof(*snapshot->changes);

	snapshot->fds = count > MEMBERS_FROM ? malloc(count * each) : snapshot->few;
	if (!snapshot->fds) {
		snapshot->is_partial = true;
		snapshot->fds = snapshot->few;
		count = MEMBERS_FROM;
	}
	snapshot->changes = (uint64_t *)(snapshot->fds + count);
	return count;
}

/*
 * The mutex is held. In the place of an eventfd that is missing the set is polled for nothing:
 * librspreload of Debian 12 looks up -1, too, which is outside of its table.
 */
static void fill(struct snapshot *snapshot, int epoll)
{
	nfds_t count = MEMBERS_FROM;

	for (size_t i = 0; i < member_count; i++)
		count += is_in(&members[i], epoll);
	snapshot->wakeup = get_wakeup();
	snapshot->is_partial = !snapshot->wakeup;
	count = make_room(snapshot, count);
	snapshot->fds[0] = (struct pollfd){ .fd = epoll, .events = POLLIN };
	snapshot->fds[1] = (struct pollfd){ .fd = epoll };
	if (snapshot->wakeup)
		snapshot->fds[1] = (struct pollfd){ snapshot->wakeup->fd, POLLIN, 0 };
	snapshot->count = MEMBERS_FROM;
	for (size_t i = 0; snapshot->count < count; i++) {
		if (!is_in(&members[i], epoll))
			continue;
		snapshot->changes[snapshot->count] = members[i].change;
		snapshot->fds[snapshot->count++] = (struct pollfd){
			.fd = members[i].fd,
			.events = (short)(members[i].event.events & POLL_BITS),
		};
	}
}

static void collect(struct snapshot *snapshot, int epoll)
{
	pthread_mutex_lock(&mutex);
	fill(snapshot, epoll);
	pthread_mutex_unlock(&mutex);
}

static void discard(void *of)
{
	struct snapshot *snapshot = of;

	if (snapshot->wakeup) {
		pthread_mutex_lock(&mutex);
		put_wakeup(snapshot->wakeup);
		pthread_mutex_unlock(&mutex);
	}
	if (snapshot->fds != snapshot->few)
		free(snapshot->fds);
}

/*
 * Placeholders that poll has found ready, from another one on each time. What has changed since, or
 * was reported by another thread with EPOLLONESHOT, is left to the next look.
 */
static int report(const struct snapshot *snapshot, unsigned turn, struct epoll_event *events,
		  int max)
{
	nfds_t count = snapshot->count - MEMBERS_FROM;
	int n = 0;

	pthread_mutex_lock(&mutex);
	for (nfds_t i = 0; i < count && n < max; i++) {
		nfds_t at = MEMBERS_FROM + (i + turn) % count;
		const struct pollfd *fd = &snapshot->fds[at];
		struct member *member = fd->revents ? find(snapshot->fds[0].fd, fd->fd) : NULL;

		if (!member || member->change != snapshot->changes[at] || member->is_disabled)
			continue;
		events[n].events = (uint32_t)fd->revents;
		events[n++].data = member->event.data;
		member->is_disabled = member->event.events & EPOLLONESHOT;
	}
	pthread_mutex_unlock(&mutex);
	return n;
}

/* What is ready of the other descriptors in the set. */
static int take_others(const struct snapshot *snapshot, struct epoll_event *events, int max)
{
	int n = 0;

	if (snapshot->fds[0].revents && max)
		n = real.epoll_pwait(snapshot->fds[0].fd, events, max, 0, NULL);
	return n > 0 ? n : 0;
}

/* librspreload does not know ppoll, which alone changes the mask and waits as one. */
static int wait_for(struct snapshot *snapshot, int timeout, const sigset_t *mask)
{
	struct timespec time = { timeout / 1000, timeout % 1000 * 1000000L };
	sigset_t before;
	int rc;

	if (snapshot->count == MEMBERS_FROM)
		return ppoll(snapshot->fds, snapshot->count, timeout < 0 ? NULL : &time, mask);
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, &before);
	rc = poll(snapshot->fds, snapshot->count, timeout);
	if (mask)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* Waits for a set with placeholders. Either kind has half of the room, and is first in turn. */
static int wait_for_both(struct snapshot *snapshot, unsigned turn, struct epoll_event *events,
			 int max, int timeout, const sigset_t *mask, bool *again)
{
	int n = wait_for(snapshot, timeout, mask), half = (max + 1) / 2;

	if (n <= 0)
		return n;
	if (turn % 2) {
		n = report(snapshot, turn / 2, events, half);
		n += take_others(snapshot, events + n, max - n);
	} else {
		n = take_others(snapshot, events, half);
		n += report(snapshot, turn / 2, events + n, max - n);
	}
	*again = !n;
	return n;
}

/* Waits for a set without: asks the system first, which also tells of wrong arguments. */
static int wait_for_others(struct snapshot *snapshot, struct epoll_event *events, int max,
			   int timeout, const sigset_t *mask, bool *again)
{
	int n = real.epoll_pwait(snapshot->fds[0].fd, events, max, 0, NULL);

	if (n || !timeout)
		return n;
	n = wait_for(snapshot, timeout, mask);
	*again = n > 0;
	return n;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int left(int64_t end_ms)
{
	int64_t ms = end_ms - now_ms();

	return ms > 0 ? (int)ms : 0;
}

/* Gives the snapshot back, also if the thread is cancelled. */
static int wait_once(struct snapshot *snapshot, unsigned turn, struct epoll_event *events, int max,
		     int timeout, const sigset_t *mask, bool *again)
{
	int n;

	pthread_cleanup_push(discard, snapshot);
	*again = false;
	if (snapshot->count > MEMBERS_FROM)
		n = wait_for_both(snapshot, turn, events, max, timeout, mask, again);
	else
		n = wait_for_others(snapshot, events, max, timeout, mask, again);
	pthread_cleanup_pop(true);
	return n;
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int max, int timeout,
		       const sigset_t *mask)
{
	static _Atomic unsigned turns;
	unsigned turn = atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
	int64_t end_ms = timeout > 0 ? now_ms() + timeout : 0;
	struct snapshot snapshot;
	bool again, is_cut;
	int n;

	init();
	if (max <= 0)
		return real.epoll_pwait(epoll, events, max, timeout, mask);
	do {
		collect(&snapshot, epoll);
		is_cut = snapshot.is_partial && (timeout < 0 || timeout > ANEW_MS);
		n = wait_once(&snapshot, turn, events, max, is_cut ? ANEW_MS : timeout, mask,
			      &again);
		again |= !n && is_cut;
		if (timeout > 0)
			timeout = left(end_ms);
	} while (again);
	return n;
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	return epoll_pwait(epoll, events, max, timeout, NULL);
}
