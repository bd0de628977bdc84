/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/repoll.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/uncancelled.h"
#include "rsocket/export.h"
#include "rsocket/poll.h"
#include "rsocket/table.h"
#include "rsocket/wait.h"

#define MS_NS	  UINT64_C(1000000)
#define POLL_BITS 0x3fff /* the events that poll and epoll have in common, with one value each */

/* An rsocket in a set. */
struct member {
	int fd;
	bool is_disabled; /* EPOLLONESHOT: it was reported */
	uint64_t change;  /* unlike that of all others, and of this one before EPOLL_CTL_MOD */
	struct epoll_event event;
};

/*
 * The eventfd of threads that wait for a set. It is written to once, when the set has changed, and
 * never read, so none of these threads can take the event from another one. Then it is no longer
 * the set's, and the last of them closes it.
 */
struct wakeup {
	int fd; /* negative: the parent's */
	unsigned waiters;
	bool is_abandoned; /* no set has it */
};

struct repoll {
	struct list link;
	int epoll;
	size_t count, room;
	struct member *members;
	size_t turn;	       /* the member to report first, so that each has its turn */
	struct wakeup *wakeup; /* of who waits next; NULL: none yet */
};

/* Guards all below. A thread that holds it is not cancelled in system calls (UNCANCELLED). */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list repolls = { &repolls, &repolls };
static uint64_t changes;

static struct repoll *find_repoll(int epoll)
{
	struct list *pos;

	list_for_each(pos, &repolls)
		if (list_entry(pos, struct repoll, link)->epoll == epoll)
			return list_entry(pos, struct repoll, link);
	return NULL;
}

static struct member *find_member(struct repoll *r, int fd)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->members[i].fd == fd)
			return &r->members[i];
	return NULL;
}

/* Wakeups; the mutex is held */

/* NULL: neither memory nor descriptors are left. */
static struct wakeup *get_wakeup(struct repoll *r)
{
	if (!r->wakeup) {
		struct wakeup *made = malloc(sizeof(*made));
		int fd = made ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;

		if (fd < 0) {
			free(made);
			return NULL;
		}
		*made = (struct wakeup){ .fd = fd };
		r->wakeup = made;
	}
	r->wakeup->waiters++;
	return r->wakeup;
}

static void end_unless_used(struct wakeup *wakeup)
{
	if (wakeup->waiters || !wakeup->is_abandoned)
		return;
	if (wakeup->fd >= 0)
		close(wakeup->fd);
	free(wakeup);
}

static void abandon_wakeup(struct repoll *r)
{
	struct wakeup *wakeup = r->wakeup;

	if (!wakeup)
		return;
	r->wakeup = NULL;
	wakeup->is_abandoned = true;
	end_unless_used(wakeup);
}

/* All that wait look at the members anew. */
static void wake(struct repoll *r)
{
	if (!r->wakeup || !r->wakeup->waiters)
		return;
	eventfd_write(r->wakeup->fd, 1);
	abandon_wakeup(r);
}

/* Sets */

RSOCKET_EXPORT int repoll_create(int size)
{
	struct repoll *r = calloc(1, sizeof(*r));

	if (!r)
		return (int)answer(-ENOMEM);
	/* NOLINTNEXTLINE(android-cloexec-epoll-create1): the program's descriptor */
	r->epoll = epoll_create1(0);
	if (r->epoll < 0) {
		free(r);
		return -1;
	}
	pthread_mutex_lock(&mutex);
	list_add_tail(&repolls, &r->link);
	pthread_mutex_unlock(&mutex);
	return r->epoll;
}

int repoll_close(int epoll)
{
	UNCANCELLED;
	struct repoll *r;

	pthread_mutex_lock(&mutex);
	r = find_repoll(epoll);
	if (r) {
		list_del(&r->link);
		wake(r);
		abandon_wakeup(r);
	}
	pthread_mutex_unlock(&mutex);
	if (!r)
		return -EBADF;
	free(r->members);
	free(r);
	return close(epoll) ? -errno : 0;
}

static void remove_member(struct repoll *r, struct member *member)
{
	*member = r->members[--r->count];
	wake(r);
}

void repoll_forget(int fd)
{
	UNCANCELLED;
	struct list *pos;

	pthread_mutex_lock(&mutex);
	list_for_each(pos, &repolls) {
		struct repoll *r = list_entry(pos, struct repoll, link);
		struct member *member = find_member(r, fd);

		if (member)
			remove_member(r, member);
	}
	pthread_mutex_unlock(&mutex);
}

void repoll_before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

void repoll_after_fork(void)
{
	pthread_mutex_unlock(&mutex);
}

/* The eventfds are the parent's, too, and of its threads there is but this one. */
void repoll_after_fork_in_child(void)
{
	struct list *pos;

	list_for_each(pos, &repolls) {
		struct repoll *r = list_entry(pos, struct repoll, link);

		if (!r->wakeup)
			continue;
		close(r->wakeup->fd);
		r->wakeup->fd = -1;
		abandon_wakeup(r);
	}
	pthread_mutex_unlock(&mutex);
}

/* Room for one more: 0 or -ENOMEM. */
static int grow(struct repoll *r)
{
	size_t room = r->room ? 2 * r->room : 16;
	struct member *larger;

	if (r->count < r->room)
		return 0;
	larger = realloc(r->members, room * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	r->members = larger;
	r->room = room;
	return 0;
}

static int change(struct repoll *r, int op, int fd, const struct epoll_event *event)
{
	struct member *member = find_member(r, fd);

	if (!member != (op == EPOLL_CTL_ADD))
		return member ? -EEXIST : -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		remove_member(r, member);
		return 0;
	}
	if (!member) {
		if (grow(r))
			return -ENOMEM;
		member = &r->members[r->count++];
	}
	*member = (struct member){ fd, false, ++changes, *event };
	wake(r);
	return 0;
}

/*
 * With the mutex. What is no rsocket goes to the epoll instance. To delete, both are looked at:
 * `fd` may have been an rsocket that is closed by now.
 */
static int control(int epoll, int op, int fd, struct epoll_event *event, bool is_rsocket)
{
	struct repoll *r = find_repoll(epoll);
	int rc = -ENOENT;

	if (!r)
		return -EBADF;
	if (op != EPOLL_CTL_ADD && op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return -EINVAL;
	if (is_rsocket || op == EPOLL_CTL_DEL)
		rc = change(r, op, fd, event);
	if (rc == -ENOENT && (!is_rsocket || op == EPOLL_CTL_DEL))
		rc = epoll_ctl(epoll, op, fd, event) ? -errno : 0;
	return rc;
}

/* An rsocket is in the table until after it is in the set, so that repoll_forget finds it there. */
RSOCKET_EXPORT int repoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	UNCANCELLED;
	struct rsocket *rs;
	int rc;

	if (op != EPOLL_CTL_DEL && !event)
		return (int)answer(-EFAULT);
	pthread_mutex_lock(&mutex);
	rs = table_get(fd);
	rc = control(epoll, op, fd, event, rs != NULL);
	pthread_mutex_unlock(&mutex);
	if (rs)
		rsocket_put(rs);
	return (int)answer(rc);
}

/* Waiting */

#define MEMBERS_FROM 2

/* A copy of a set: the epoll instance, the eventfd, the rsockets. */
struct snapshot {
	int epoll;
	nfds_t count;
	struct pollfd *fds;
	uint64_t *changes;     /* of the member at the same place; part of `fds` */
	struct wakeup *wakeup; /* NULL: neither memory nor descriptors were left */
	size_t turn;
};

/* With the mutex. 0 or -ENOMEM. */
static int copy_members(struct repoll *r, struct snapshot *snapshot)
{
	snapshot->fds = malloc((MEMBERS_FROM + r->count) *
			       (sizeof(*snapshot->fds) + sizeof(*snapshot->changes)));
	if (!snapshot->fds)
		return -ENOMEM;
	snapshot->changes = (uint64_t *)(snapshot->fds + MEMBERS_FROM + r->count);
	snapshot->wakeup = get_wakeup(r);
	snapshot->turn = r->turn++;
	snapshot->fds[0] = (struct pollfd){ .fd = r->epoll, .events = POLLIN };
	snapshot->fds[1] = (struct pollfd){ .fd = -1 };
	if (snapshot->wakeup)
		snapshot->fds[1] = (struct pollfd){ snapshot->wakeup->fd, POLLIN, 0 };
	snapshot->count = MEMBERS_FROM;
	for (size_t i = 0; i < r->count; i++) {
		const struct member *member = &r->members[i];

		if (member->is_disabled)
			continue;
		snapshot->changes[snapshot->count] = member->change;
		snapshot->fds[snapshot->count++] = (struct pollfd){
			.fd = member->fd,
			.events = (short)(member->event.events & POLL_BITS),
		};
	}
	return 0;
}

/* 0, and discard() frees it; -EBADF or -ENOMEM. */
static int take_snapshot(int epoll, struct snapshot *snapshot)
{
	UNCANCELLED;
	struct repoll *r;
	int rc;

	pthread_mutex_lock(&mutex);
	r = find_repoll(epoll);
	snapshot->epoll = epoll;
	rc = r ? copy_members(r, snapshot) : -EBADF;
	pthread_mutex_unlock(&mutex);
	return rc;
}

static void discard(void *arg)
{
	UNCANCELLED;
	struct snapshot *snapshot = arg;

	free(snapshot->fds);
	if (!snapshot->wakeup)
		return;
	pthread_mutex_lock(&mutex);
	snapshot->wakeup->waiters--;
	end_unless_used(snapshot->wakeup);
	pthread_mutex_unlock(&mutex);
}

/*
 * With the mutex. What has changed since, or was reported to another thread with EPOLLONESHOT, is
 * left to the next look.
 */
static bool report_one(struct repoll *r, const struct snapshot *snapshot, nfds_t at,
		       struct epoll_event *event)
{
	const struct pollfd *fd = &snapshot->fds[at];
	struct member *member = fd->revents ? find_member(r, fd->fd) : NULL;

	if (!member || member->change != snapshot->changes[at] || member->is_disabled ||
	    fd->revents & POLLNVAL)
		return false;
	event->events = (uint32_t)fd->revents;
	event->data = member->event.data;
	member->is_disabled = member->event.events & EPOLLONESHOT;
	return true;
}

/* The rsockets that poll has found ready, from another one on each time. */
static int report(const struct snapshot *snapshot, struct epoll_event *events, int max)
{
	nfds_t count = snapshot->count - MEMBERS_FROM;
	struct repoll *r;
	int n = 0;

	pthread_mutex_lock(&mutex);
	r = find_repoll(snapshot->epoll);
	for (nfds_t i = 0; r && i < count && n < max; i++)
		n += report_one(r, snapshot, MEMBERS_FROM + (i + snapshot->turn / 2) % count,
				events + n);
	pthread_mutex_unlock(&mutex);
	return n;
}

/* What is ready of the ordinary descriptors: how many, or -errno. */
static int take_others(const struct snapshot *snapshot, struct epoll_event *events, int max)
{
	int n;

	if (!snapshot->fds[0].revents || !max)
		return 0;
	n = epoll_wait(snapshot->epoll, events, max, 0);
	return n < 0 ? -errno : n;
}

/* Either kind is first in turn. The number of events, or -errno. */
static int give_events(const struct snapshot *snapshot, struct epoll_event *events, int max)
{
	bool rsockets_first = snapshot->turn % 2;
	int first, second;

	first = rsockets_first ? report(snapshot, events, max) : take_others(snapshot, events, max);
	if (first < 0)
		return first;
	events += first;
	max -= first;
	second =
		rsockets_first ? take_others(snapshot, events, max) : report(snapshot, events, max);
	return second < 0 && first ? first : first + second;
}

/* Without an eventfd the thread looks at the set anew every WAIT_ANEW_MS. */
static uint64_t look_until(const struct snapshot *snapshot, uint64_t deadline_ns)
{
	uint64_t anew_ns = clock_now_ns() + WAIT_ANEW_MS * MS_NS;

	return snapshot->wakeup || (deadline_ns && deadline_ns < anew_ns) ? deadline_ns : anew_ns;
}

static bool is_over(uint64_t deadline_ns)
{
	return deadline_ns && clock_now_ns() >= deadline_ns;
}

static int wait_once(int epoll, struct epoll_event *events, int max, uint64_t deadline_ns)
{
	struct snapshot snapshot;
	int rc = take_snapshot(epoll, &snapshot);

	if (rc)
		return rc;
	pthread_cleanup_push(discard, &snapshot);
	rc = poll_wait(snapshot.fds, snapshot.count, look_until(&snapshot, deadline_ns));
	if (rc > 0)
		rc = give_events(&snapshot, events, max);
	pthread_cleanup_pop(1);
	return rc;
}

RSOCKET_EXPORT int repoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	CANCELLED_ASLEEP;
	uint64_t deadline = poll_deadline(timeout);
	int rc;

	if (max <= 0)
		return (int)answer(-EINVAL);
	do {
		/* 0: the set has changed, or another thread took what was ready. */
		rc = wait_once(epoll, events, max, deadline);
	} while (!rc && !is_over(deadline));
	return (int)answer(rc);
}
