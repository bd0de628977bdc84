/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls that wait: rpoll, rselect, repoll. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/export.h"
#include "rsocket/poll.h"
#include "rsocket/table.h"
#include "rsocket/wait.h"

RSOCKET_EXPORT int rpoll(struct pollfd *fds, nfds_t count, int timeout)
{
	return (int)answer(poll_wait(fds, count, poll_deadline(timeout)));
}

/* The sets of select(2) in terms of poll(2), as the kernel has them (fs/select.c). */
#define READ_EVENTS   (POLLIN | POLLRDNORM | POLLHUP | POLLERR)
#define WRITE_EVENTS  (POLLOUT | POLLWRNORM | POLLERR)
#define EXCEPT_EVENTS POLLPRI

static bool is_in(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t collect(int count, const fd_set *reads, const fd_set *writes, const fd_set *excepts,
		      struct pollfd *fds)
{
	nfds_t n = 0;

	for (int fd = 0; fd < count; fd++) {
		short events = (short)((is_in(reads, fd) ? POLLIN : 0) |
				       (is_in(writes, fd) ? POLLOUT : 0) |
				       (is_in(excepts, fd) ? POLLPRI : 0));

		if (events)
			fds[n++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return n;
}

static int update_bit(fd_set *set, int fd, bool set_it)
{
	if (!is_in(set, fd))
		return 0;
	if (!set_it)
		FD_CLR(fd, set);
	return set_it;
}

/*
 * Writes the sets and returns the number of bits. -EBADF: one entry is no descriptor; sets
 * unchanged.
 */
static int distribute(const struct pollfd *fds, nfds_t n, fd_set *reads, fd_set *writes,
		      fd_set *excepts)
{
	int ready = 0;

	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (nfds_t i = 0; i < n; i++) {
		ready += update_bit(reads, fds[i].fd, fds[i].revents & READ_EVENTS);
		ready += update_bit(writes, fds[i].fd, fds[i].revents & WRITE_EVENTS);
		ready += update_bit(excepts, fds[i].fd, fds[i].revents & EXCEPT_EVENTS);
	}
	return ready;
}

/* Writes the remaining time to `timeout`, as Linux does, select(2). */
static void write_time_left(uint64_t deadline_ns, struct timeval *timeout)
{
	uint64_t now = clock_now_ns(), left = now < deadline_ns ? deadline_ns - now : 0;

	timeout->tv_sec = (time_t)(left / 1000000000);
	timeout->tv_usec = (suseconds_t)(left % 1000000000 / 1000);
}

static int deadline_of(const struct timeval *timeout, uint64_t *deadline_ns)
{
	*deadline_ns = 0;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec >= 1000000)
		return -EINVAL;
	*deadline_ns = clock_now_ns() + (uint64_t)timeout->tv_sec * 1000000000 +
		       (uint64_t)timeout->tv_usec * 1000;
	return 0;
}

RSOCKET_EXPORT int rselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts,
			   struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	uint64_t deadline;
	nfds_t n;
	int rc = deadline_of(timeout, &deadline);

	if (!rc && count < 0)
		rc = -EINVAL;
	if (rc)
		return (int)answer(rc);
	n = collect(count < FD_SETSIZE ? count : FD_SETSIZE, reads, writes, excepts, fds);
	rc = poll_wait(fds, n, deadline);
	if (rc < 0)
		return (int)answer(rc);
	if (timeout)
		write_time_left(deadline, timeout);
	return (int)answer(distribute(fds, n, reads, writes, excepts));
}

/*
 * The rsockets of an epoll instance. Ordinary descriptors are in the kernel's instance, whose own
 * descriptor is the first entry of `fds`.
 */
struct repoll {
	struct list link;
	int epoll;
	nfds_t count, room;
	struct pollfd *fds;
	epoll_data_t *data;
	nfds_t turn; /* the entry to report first, so that each has its turn if not all fit */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list and all sets in it */
static struct list repolls = { &repolls, &repolls };

static struct repoll *find_repoll(int epoll)
{
	struct list *pos;

	list_for_each(pos, &repolls)
		if (list_entry(pos, struct repoll, link)->epoll == epoll)
			return list_entry(pos, struct repoll, link);
	return NULL;
}

static int grow(struct repoll *r)
{
	nfds_t room = r->room ? 2 * r->room : 16;
	struct pollfd *fds = realloc(r->fds, room * sizeof(*fds));
	epoll_data_t *data;

	if (!fds)
		return -ENOMEM;
	r->fds = fds;
	data = realloc(r->data, room * sizeof(*data));
	if (!data)
		return -ENOMEM;
	r->data = data;
	r->room = room;
	return 0;
}

static void free_repoll(struct repoll *r)
{
	free(r->fds);
	free(r->data);
	free(r);
}

RSOCKET_EXPORT int repoll_create(int size)
{
	struct repoll *r = calloc(1, sizeof(*r));

	if (!r || grow(r)) {
		if (r)
			free_repoll(r);
		return (int)answer(-ENOMEM);
	}
	/* NOLINTNEXTLINE(android-cloexec-epoll-create1): the program's descriptor */
	r->epoll = epoll_create1(0);
	if (r->epoll < 0) {
		free_repoll(r);
		return -1;
	}
	r->fds[0] = (struct pollfd){ .fd = r->epoll, .events = POLLIN };
	r->count = 1;
	pthread_mutex_lock(&mutex);
	list_add_tail(&repolls, &r->link);
	pthread_mutex_unlock(&mutex);
	return r->epoll;
}

int poll_close_set(int epoll)
{
	struct repoll *r;

	pthread_mutex_lock(&mutex);
	r = find_repoll(epoll);
	if (r)
		list_del(&r->link);
	pthread_mutex_unlock(&mutex);
	if (!r)
		return -EBADF;
	free_repoll(r);
	return close(epoll) ? -errno : 0;
}

static void remove_entry(struct repoll *r, nfds_t i)
{
	r->count--;
	r->fds[i] = r->fds[r->count];
	r->data[i] = r->data[r->count];
}

/* With the mutex. */
static void forget(int fd)
{
	struct list *pos;

	list_for_each(pos, &repolls) {
		struct repoll *r = list_entry(pos, struct repoll, link);

		for (nfds_t i = 1; i < r->count; i++)
			if (r->fds[i].fd == fd)
				remove_entry(r, i--);
	}
}

void poll_forget(int fd)
{
	pthread_mutex_lock(&mutex);
	forget(fd);
	pthread_mutex_unlock(&mutex);
}

void poll_before_fork(void)
{
	pthread_mutex_lock(&mutex);
}

void poll_after_fork(void)
{
	pthread_mutex_unlock(&mutex);
}

static int change(struct repoll *r, int op, int fd, const struct epoll_event *event)
{
	nfds_t i = 1;

	while (i < r->count && r->fds[i].fd != fd)
		i++;
	if (op == EPOLL_CTL_ADD && i < r->count)
		return -EEXIST;
	if (op != EPOLL_CTL_ADD && i == r->count)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		remove_entry(r, i);
		return 0;
	}
	if (i == r->room && grow(r))
		return -ENOMEM;
	/* EPOLLIN and its kin have the values of POLLIN and its kin. */
	r->fds[i] = (struct pollfd){ .fd = fd, .events = (short)(event->events & 0x3fff) };
	r->data[i] = event->data;
	r->count += op == EPOLL_CTL_ADD;
	return 0;
}

RSOCKET_EXPORT int repoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct rsocket *rs = table_get(fd);
	struct repoll *r;
	int rc;

	if (rs)
		rsocket_put(rs);
	if (op != EPOLL_CTL_DEL && !event)
		return (int)answer(-EFAULT);
	pthread_mutex_lock(&mutex);
	r = find_repoll(epoll);
	if (!r)
		rc = -EBADF;
	else if (!rs && op != EPOLL_CTL_DEL)
		rc = epoll_ctl(epoll, op, fd, event) ? -errno : 0;
	else if (op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD || op == EPOLL_CTL_DEL)
		rc = change(r, op, fd, event);
	else
		rc = -EINVAL;
	/*
	 * `fd` may have been an rsocket that is closed by now, and that `change` looked for in
	 * vain.
	 */
	if (rc == -ENOENT && op == EPOLL_CTL_DEL)
		rc = epoll_ctl(epoll, op, fd, event) ? -errno : 0;
	pthread_mutex_unlock(&mutex);
	return (int)answer(rc);
}

/* Copies the set; the caller frees `fds`, which `data` is part of. 0, -EBADF or -ENOMEM. */
static int copy_set(int epoll, struct pollfd **fds, epoll_data_t **data, nfds_t *count,
		    nfds_t *turn)
{
	struct repoll *r;
	int rc = -EBADF;

	pthread_mutex_lock(&mutex);
	r = find_repoll(epoll);
	if (r) {
		*count = r->count;
		*turn = r->turn++;
		*fds = malloc(r->count * (sizeof(**fds) + sizeof(**data)));
		rc = *fds ? 0 : -ENOMEM;
	}
	if (!rc) {
		*data = (epoll_data_t *)(*fds + r->count);
		memcpy(*fds, r->fds, r->count * sizeof(**fds));
		memcpy(*data, r->data, r->count * sizeof(**data));
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

static int give_events(int epoll, const struct pollfd *fds, const epoll_data_t *data, nfds_t count,
		       nfds_t turn, struct epoll_event *events, int max)
{
	int n = 0;

	for (nfds_t i = 0; i < count && n < max; i++) {
		nfds_t at = (turn + i) % count;

		if (!fds[at].revents)
			continue;
		if (!at) {
			int found = epoll_wait(epoll, events + n, max - n, 0);

			if (found < 0 && !n)
				return -errno;
			n += found > 0 ? found : 0;
		} else if (!(fds[at].revents & POLLNVAL)) {
			events[n].events = (uint32_t)fds[at].revents;
			events[n++].data = data[at];
		}
	}
	return n;
}

/*
 * Those that were added while they were closed. A number may be another rsocket's by now: that is
 * in the table before it is in a set.
 */
static void forget_closed(const struct pollfd *fds, nfds_t count)
{
	pthread_mutex_lock(&mutex);
	for (nfds_t i = 1; i < count; i++) {
		struct rsocket *rs = fds[i].revents & POLLNVAL ? table_get(fds[i].fd) : NULL;

		if (rs)
			rsocket_put(rs);
		else if (fds[i].revents & POLLNVAL)
			forget(fds[i].fd);
	}
	pthread_mutex_unlock(&mutex);
}

RSOCKET_EXPORT int repoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	uint64_t deadline = poll_deadline(timeout);
	epoll_data_t *data;
	struct pollfd *fds;
	nfds_t count, turn;
	bool again;
	int rc;

	if (max <= 0)
		return (int)answer(-EINVAL);
	do {
		rc = copy_set(epoll, &fds, &data, &count, &turn);
		if (rc)
			return (int)answer(rc);
		rc = poll_wait(fds, count, deadline);
		again = rc > 0;
		if (rc > 0)
			rc = give_events(epoll, fds, data, count, turn, events, max);
		if (again && !rc)
			forget_closed(fds, count);
		free(fds);
		/* what woke it was closed meanwhile, or another thread took it */
	} while (again && !rc && (!deadline || clock_now_ns() < deadline));
	return (int)answer(rc);
}
