/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/linger.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/connect.h"
#include "rsocket/message.h"
#include "rsocket/stream_progress.h"
#include "rsocket/wait.h"

#define PER_STREAM 2 /* descriptors that stream_arm returns at most */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct list streams = { &streams, &streams }; /* only the thread removes streams */
static unsigned stream_count;
static bool running;
static int added_fd = -1; /* an eventfd: a stream was added */

bool linger_is_over(struct stream *s)
{
	if (s->phase == STREAM_ACCEPTING)
		return false; /* the control message has to wait until the peer confirms */
	return s->phase != STREAM_CONNECTED || (!s->owes && message_all_done(s));
}

/* Arms one stream and makes progress on it. False: everything is delivered, or the time is over. */
static bool progress_one(struct stream *s, struct pollfd *fds, nfds_t *count, uint64_t now)
{
	bool goes_on;

	lock_acquire(&s->lock);
	*count += (nfds_t)stream_arm(s, fds + *count);
	stream_progress(s); /* after arming, because earlier completions raise no event */
	goes_on = now < s->linger_until_ns && !linger_is_over(s);
	lock_release(&s->lock);
	return goes_on;
}

/*
 * The stream after `s`, or the first after NULL; NULL at the end. Only the thread removes streams,
 * so it may release the mutex between two steps. A stream may have to ask verbatimd, and a thread
 * that adds another stream does not wait for that.
 */
static struct stream *next_stream(struct stream *s)
{
	struct list *next;

	pthread_mutex_lock(&mutex);
	next = s ? s->linger_link.next : streams.next;
	pthread_mutex_unlock(&mutex);
	return next == &streams ? NULL : list_entry(next, struct stream, linger_link);
}

static void remove_stream(struct stream *s, struct list *over)
{
	pthread_mutex_lock(&mutex);
	list_del(&s->linger_link);
	stream_count--;
	pthread_mutex_unlock(&mutex);
	list_add_tail(over, &s->linger_link);
}

/*
 * Makes progress on the first `room` streams; `added_fd` tells of later ones. Moves those that are
 * done to `over`, and collects the descriptors of the rest. Returns how many descriptors there are.
 */
static nfds_t progress_all(struct pollfd *fds, unsigned room, struct list *over, uint64_t *until_ns)
{
	uint64_t now = clock_now_ns();
	struct stream *s, *next;
	nfds_t count = 0;

	fds[count++] = (struct pollfd){ .fd = added_fd, .events = POLLIN };
	for (s = next_stream(NULL); s && room; s = next, room--) {
		nfds_t before = count;
		bool goes_on = progress_one(s, fds, &count, now);

		next = next_stream(s);
		if (!goes_on) {
			count = before;
			remove_stream(s, over);
		} else if (s->linger_until_ns < *until_ns) {
			*until_ns = s->linger_until_ns;
		}
	}
	return count;
}

/* Disarms all streams, readable or not: there are few. */
static void disarm_all(void)
{
	for (struct stream *s = next_stream(NULL); s; s = next_stream(s)) {
		lock_acquire(&s->lock);
		stream_disarm(s);
		lock_release(&s->lock);
	}
}

static void finish(struct list *over)
{
	while (!list_empty(over)) {
		struct stream *s = list_entry(over->next, struct stream, linger_link);

		list_del(&s->linger_link);
		lock_acquire(&s->lock);
		connect_end(s);
		lock_release(&s->lock);
		rsocket_put(&s->base);
	}
}

static int wait_ms(uint64_t until_ns)
{
	uint64_t now = clock_now_ns();

	return now < until_ns ? (int)((until_ns - now) / 1000000) + 1 : 0;
}

/* One round: progress, then sleep until something happens. The list is not empty. */
static void serve_once(void)
{
	struct pollfd few[1 + 8 * PER_STREAM], *fds = few, *many = NULL;
	struct list over = { &over, &over };
	uint64_t until_ns = clock_now_ns() + UINT64_C(1000000000);
	nfds_t count = 0;
	unsigned room;

	pthread_mutex_lock(&mutex);
	room = stream_count;
	pthread_mutex_unlock(&mutex);
	if (room > 8)
		fds = many = malloc((1 + (size_t)room * PER_STREAM) * sizeof(*fds));
	if (fds)
		count = progress_all(fds, room, &over, &until_ns);
	else /* without memory the thread gives up the oldest stream */
		remove_stream(next_stream(NULL), &over);
	finish(&over);
	if (fds)
		poll(fds, count, wait_ms(until_ns));
	free(many);
	/* Before the list is read: a stream that is added later signals once more. */
	wait_clear(added_fd);
	disarm_all();
}

/*
 * The caller holds the mutex. The variable is reset before the close: the child of a fork closes
 * what it finds there, and must not find a number that another thread may have got since.
 */
static void close_added_fd(void)
{
	int fd = added_fd;

	added_fd = -1;
	close(fd);
}

/* True: no stream is left, and the thread ends. */
static bool end_if_idle(void)
{
	bool idle;

	pthread_mutex_lock(&mutex);
	idle = list_empty(&streams);
	if (idle) {
		close_added_fd();
		running = false;
		pthread_cond_broadcast(&ended);
	}
	pthread_mutex_unlock(&mutex);
	return idle;
}

static void *run(void *arg)
{
	while (!end_if_idle())
		serve_once();
	return NULL;
}

static void wait_at_exit(void)
{
	pthread_mutex_lock(&mutex);
	while (running)
		pthread_cond_wait(&ended, &mutex);
	pthread_mutex_unlock(&mutex);
}

static int start_thread(void)
{
	static bool watched;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	if (!watched && atexit(wait_at_exit))
		return -ENOMEM;
	watched = true;
	added_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (added_fd < 0)
		return -errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc) {
		close_added_fd();
		return -rc;
	}
	pthread_detach(thread);
	running = true;
	return 0;
}

int linger_add(struct stream *s, uint64_t until_ns)
{
	int rc = 0;

	pthread_mutex_lock(&mutex);
	if (!running)
		rc = start_thread();
	else
		eventfd_write(added_fd, 1);
	if (!rc) {
		atomic_fetch_add(&s->base.refs, 1);
		s->linger_until_ns = until_ns;
		list_add_tail(&streams, &s->linger_link);
		stream_count++;
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

void linger_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	pthread_cond_init(&ended, NULL);
	if (added_fd >= 0)
		close_added_fd();
	list_init(&streams);
	stream_count = 0;
	running = false;
}
