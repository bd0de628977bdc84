/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/config.h"

#define MS_NS UINT64_C(1000000)

static pthread_key_t key;
static int key_error;
static _Atomic unsigned generation = 1;

static __thread int thread_fd;
static __thread unsigned thread_generation;

static void close_fd(void *value)
{
	if (thread_generation == atomic_load(&generation))
		close(thread_fd);
	thread_generation = 0;
}

static void make_key(void)
{
	key_error = pthread_key_create(&key, close_fd);
}

int wait_fd(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned now = atomic_load(&generation);

	if (thread_generation == now)
		return thread_fd;
	pthread_once(&once, make_key);
	if (key_error)
		return -key_error;
	thread_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread_fd < 0)
		return -errno;
	thread_generation = now;
	pthread_setspecific(key, &thread_fd);
	return thread_fd;
}

void wait_clear(int fd)
{
	eventfd_t value;

	eventfd_read(fd, &value);
}

int wait_left_ms(int fd, uint64_t deadline_ns)
{
	uint64_t now = deadline_ns ? clock_now_ns() : 0, left_ms = config_get()->wake_ms;

	if (fd < 0 && left_ms > WAIT_ANEW_MS)
		left_ms = WAIT_ANEW_MS;
	if (deadline_ns && now >= deadline_ns)
		return 0;
	if (deadline_ns && (deadline_ns - now) / MS_NS < left_ms)
		left_ms = (deadline_ns - now + MS_NS - 1) / MS_NS;
	return (int)left_ms;
}

void wait_join(struct list *waiters, struct waiter *waiter, int fd)
{
	waiter->fd = fd;
	list_add_tail(waiters, &waiter->link);
}

void wait_leave(struct waiter *waiter)
{
	list_del(&waiter->link);
}

void wait_kick(struct list *waiters)
{
	struct list *pos;
	int error = errno;

	list_for_each(pos, waiters) {
		int fd = list_entry(pos, struct waiter, link)->fd;

		if (fd >= 0)
			eventfd_write(fd, 1);
	}
	errno = error;
}

/* CANCELLED_ASLEEP, and the program has not disabled cancellation. */
static __thread bool is_cancellable;

enum { WAS_DISABLED = 1, WAS_CANCELLABLE = 2 };

int wait_call_begin(void)
{
	int state, before;

	pthread_testcancel();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	before = (state == PTHREAD_CANCEL_DISABLE ? WAS_DISABLED : 0) |
		 (is_cancellable ? WAS_CANCELLABLE : 0);
	if (state == PTHREAD_CANCEL_ENABLE)
		is_cancellable = true;
	return before;
}

void wait_call_end(const int *before)
{
	is_cancellable = *before & WAS_CANCELLABLE;
	if (!(*before & WAS_DISABLED))
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

int wait_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int rc;

	if (!is_cancellable)
		return poll(fds, count, timeout_ms);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	rc = poll(fds, count, timeout_ms);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return rc;
}

struct joined {
	struct waiter *waiter;
	struct lock *lock;
};

static void leave_cancelled(void *arg)
{
	struct joined *joined = arg;

	lock_acquire(joined->lock);
	wait_leave(joined->waiter);
	lock_release(joined->lock);
}

int wait_poll_joined(struct waiter *waiter, struct lock *lock, struct pollfd *fds, nfds_t count,
		     int timeout_ms)
{
	struct joined joined = { waiter, lock };
	int woken;

	pthread_cleanup_push(leave_cancelled, &joined);
	woken = wait_poll(fds, count, timeout_ms);
	pthread_cleanup_pop(0);
	return woken;
}

void wait_forget(void)
{
	atomic_fetch_add(&generation, 1);
}
