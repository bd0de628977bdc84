/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/poll.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "rsocket/config.h"
#include "rsocket/datagram.h"
#include "rsocket/export.h"
#include "rsocket/stream_progress.h"
#include "rsocket/wait.h"

#define FEW	  16 /* up to so many entries a call needs no malloc */
#define PER_ENTRY 2  /* descriptors that an rsocket sleeps on at most */
#define MS_NS	  UINT64_C(1000000)

/* An entry of the caller that is an rsocket. */
struct entry {
	struct rsocket *rs;
	struct pollfd *fd;
	struct waiter waiter;
	unsigned first, count; /* its descriptors in call.sleep */
};

/*
 * One call. `sleep` begins with a copy of the caller's entries that are ordinary descriptors, and
 * `places` says which these are. It has no others: poll(2) counts those that it ignores, too.
 */
struct call {
	struct pollfd *fds;
	nfds_t fd_count;
	struct entry *entries;
	unsigned count;
	nfds_t *places, ordinary;
	struct pollfd *sleep;
	nfds_t sleep_count;
	bool asleep; /* the rsockets have `waiter` in their lists */
	int self;    /* eventfd of the thread; negative: no descriptor is left for one */
};

uint64_t poll_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? 0 : clock_now_ns() + (uint64_t)timeout_ms * MS_NS;
}

static short poll_stream(struct stream *s, short events)
{
	short revents;

	lock_acquire(&s->lock);
	revents = s->base.closed ? POLLNVAL : stream_poll(s, events);
	lock_release(&s->lock);
	return revents;
}

static short poll_datagram(struct datagram *d, short events)
{
	short revents;

	lock_acquire(&d->lock);
	revents = d->base.closed ? POLLNVAL : datagram_poll(d, events);
	lock_release(&d->lock);
	return revents;
}

static short poll_one(struct rsocket *rs, short events)
{
	return rs->type == SOCK_STREAM ? poll_stream(stream_of(rs), events)
				       : poll_datagram(datagram_of(rs), events);
}

/* Collects the rsockets among the entries, with a reference to each. */
static void collect(struct call *call)
{
	for (nfds_t i = 0; i < call->fd_count; i++) {
		struct pollfd *fd = &call->fds[i];
		struct rsocket *rs = table_get(fd->fd);

		fd->revents = 0;
		if (rs) {
			call->entries[call->count++] = (struct entry){ .rs = rs, .fd = fd };
		} else if (fd->fd >= 0) {
			call->places[call->ordinary] = i;
			call->sleep[call->ordinary++] = *fd;
		}
	}
}

/* Polls the ordinary descriptors: the number of those with events, or -errno. */
static int poll_ordinary(struct call *call)
{
	int ready = poll(call->sleep, call->ordinary, 0);

	for (nfds_t i = 0; i < call->ordinary; i++)
		call->fds[call->places[i]].revents = call->sleep[i].revents;
	return ready < 0 ? -errno : ready;
}

/* Polls all entries once without sleeping: the number of entries with events, or -errno. */
static int poll_all(struct call *call)
{
	int ready = 0, ordinary;

	for (unsigned i = 0; i < call->count; i++) {
		struct entry *entry = &call->entries[i];

		entry->fd->revents = poll_one(entry->rs, entry->fd->events);
		ready += entry->fd->revents != 0;
	}
	ordinary = call->ordinary ? poll_ordinary(call) : 0;
	return ordinary < 0 ? ordinary : ready + ordinary;
}

/* The number of descriptors that the thread, whose eventfd is `self`, has to sleep on: at fds. */
static int arm_stream(struct stream *s, struct waiter *waiter, int self, struct pollfd *fds)
{
	int count;

	lock_acquire(&s->lock);
	count = stream_arm(s, fds);
	wait_join(&s->waiters, waiter, self);
	lock_release(&s->lock);
	return count;
}

static int arm_datagram(struct datagram *d, struct waiter *waiter, int self, struct pollfd *fds)
{
	int count;

	lock_acquire(&d->lock);
	count = datagram_arm(d, fds);
	wait_join(&d->waiters, waiter, self);
	lock_release(&d->lock);
	return count;
}

/* Arms all rsockets and enters their lists of waiters. True: an event is there already. */
static bool arm(struct call *call)
{
	bool ready = false;

	call->sleep_count = call->ordinary;
	for (unsigned i = 0; i < call->count; i++) {
		struct entry *entry = &call->entries[i];
		struct rsocket *rs = entry->rs;
		struct pollfd *at = call->sleep + call->sleep_count;
		int count;

		entry->first = (unsigned)call->sleep_count;
		if (rs->type == SOCK_STREAM)
			count = arm_stream(stream_of(rs), &entry->waiter, call->self, at);
		else
			count = arm_datagram(datagram_of(rs), &entry->waiter, call->self, at);
		entry->count = (unsigned)count;
		call->sleep_count += entry->count;
		ready |= poll_one(rs, entry->fd->events) != 0;
	}
	if (call->self >= 0)
		call->sleep[call->sleep_count++] =
			(struct pollfd){ .fd = call->self, .events = POLLIN };
	return ready;
}

static void disarm_stream(struct stream *s, struct waiter *waiter, bool readable)
{
	lock_acquire(&s->lock);
	wait_leave(waiter);
	if (readable)
		stream_disarm(s);
	lock_release(&s->lock);
}

static void disarm_datagram(struct datagram *d, struct waiter *waiter, bool readable)
{
	lock_acquire(&d->lock);
	wait_leave(waiter);
	if (readable)
		datagram_disarm(d);
	lock_release(&d->lock);
}

/* Leaves the lists of waiters and disarms the rsockets whose descriptors are readable. */
static void disarm(struct call *call, bool woken)
{
	for (unsigned i = 0; i < call->count; i++) {
		struct entry *entry = &call->entries[i];
		bool readable = false;

		for (unsigned j = 0; woken && j < entry->count; j++)
			readable |= call->sleep[entry->first + j].revents != 0;
		if (entry->rs->type == SOCK_STREAM)
			disarm_stream(stream_of(entry->rs), &entry->waiter, readable);
		else
			disarm_datagram(datagram_of(entry->rs), &entry->waiter, readable);
	}
}

static int sleep_once(struct call *call, uint64_t deadline_ns)
{
	bool ready = arm(call);
	int timeout_ms = ready ? 0 : wait_left_ms(call->self, deadline_ns);
	int woken, rc;

	call->asleep = true;
	woken = wait_poll(call->sleep, call->sleep_count, timeout_ms);
	rc = woken < 0 ? -errno : 0;
	call->asleep = false;
	if (woken > 0 && call->self >= 0 && call->sleep[call->sleep_count - 1].revents)
		wait_clear(call->self);
	disarm(call, woken > 0);
	return rc;
}

static int wait_for_any(struct call *call, uint64_t deadline_ns)
{
	uint64_t start = 0, now, until = config_get()->poll_us * UINT64_C(1000);
	int ready;

	for (;;) {
		ready = poll_all(call);
		if (ready)
			return ready;
		now = clock_now_ns();
		if (deadline_ns && now >= deadline_ns)
			return 0;
		if (!start)
			start = now;
		if (now - start < until)
			continue;
		ready = sleep_once(call, deadline_ns);
		if (ready)
			return ready;
	}
}

static int wait_with(struct call *call, uint64_t deadline_ns)
{
	int rc;

	collect(call);
	if (!call->count) {
		/* Without rsockets this is poll(2), called again after each wake_up_interval. */
		do {
			rc = wait_poll(call->fds, call->fd_count, wait_left_ms(0, deadline_ns));
			rc = rc < 0 ? -errno : rc;
		} while (!rc && (!deadline_ns || clock_now_ns() < deadline_ns));
		return rc;
	}
	call->self = wait_fd();
	return wait_for_any(call, deadline_ns);
}

/* At the end of a call, and as a handler while it sleeps. */
static void end_call(void *arg)
{
	struct call *call = arg;

	if (call->asleep)
		disarm(call, false);
	for (unsigned i = 0; i < call->count; i++)
		rsocket_put(call->entries[i].rs);
	if (call->fd_count <= FEW)
		return;
	free(call->entries);
	free(call->sleep);
	free(call->places);
}

static int wait_and_end(struct call *call, uint64_t deadline_ns)
{
	int rc;

	pthread_cleanup_push(end_call, call);
	rc = wait_with(call, deadline_ns);
	pthread_cleanup_pop(1);
	return rc;
}

int poll_wait(struct pollfd *fds, nfds_t count, uint64_t deadline_ns)
{
	struct entry few_entries[FEW];
	struct pollfd few_sleep[FEW * PER_ENTRY + 1];
	nfds_t few_places[FEW];
	struct call call = {
		.fds = fds,
		.fd_count = count,
		.entries = few_entries,
		.sleep = few_sleep,
		.places = few_places,
	};

	if (count <= FEW)
		return wait_and_end(&call, deadline_ns);
	if (count > 1 << 20)
		return -EINVAL;
	call.entries = calloc(count, sizeof(*call.entries));
	call.sleep = calloc(count * PER_ENTRY + 1, sizeof(*call.sleep));
	call.places = calloc(count, sizeof(*call.places));
	if (call.entries && call.sleep && call.places)
		return wait_and_end(&call, deadline_ns);
	end_call(&call);
	return -ENOMEM;
}

/* The exported calls */

RSOCKET_EXPORT int rpoll(struct pollfd *fds, nfds_t count, int timeout)
{
	CANCELLED_ASLEEP;
	return (int)answer(poll_wait(fds, count, poll_deadline(timeout)));
}

/* The sets of select(2) in terms of poll(2), as the kernel has them (fs/select.c). */
#define READ_EVENTS   (POLLIN | POLLRDNORM | POLLHUP | POLLERR)
#define WRITE_EVENTS  (POLLOUT | POLLWRNORM | POLLERR)
#define EXCEPT_EVENTS POLLPRI

#define FAR_S UINT32_MAX /* whatever is further away is as good as never */

static bool is_in(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t collect_sets(int count, const fd_set *reads, const fd_set *writes,
			   const fd_set *excepts, struct pollfd *fds)
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
	uint64_t seconds;

	*deadline_ns = 0;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec >= 1000000)
		return -EINVAL;
	seconds = timeout->tv_sec < FAR_S ? (uint64_t)timeout->tv_sec : FAR_S;
	*deadline_ns = clock_now_ns() + seconds * 1000000000 + (uint64_t)timeout->tv_usec * 1000;
	return 0;
}

RSOCKET_EXPORT int rselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts,
			   struct timeval *timeout)
{
	CANCELLED_ASLEEP;
	struct pollfd fds[FD_SETSIZE];
	uint64_t deadline;
	nfds_t n;
	int rc = deadline_of(timeout, &deadline);

	if (!rc && count < 0)
		rc = -EINVAL;
	if (rc)
		return (int)answer(rc);
	n = collect_sets(count < FD_SETSIZE ? count : FD_SETSIZE, reads, writes, excepts, fds);
	rc = poll_wait(fds, n, deadline);
	if (rc < 0)
		return (int)answer(rc);
	if (timeout)
		write_time_left(deadline, timeout);
	return (int)answer(distribute(fds, n, reads, writes, excepts));
}
