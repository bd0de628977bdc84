/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/keepalive.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rsocket/message.h"
#include "rsocket/stream_progress.h"

#define DEFAULT_S 7200
#define SECOND_NS UINT64_C(1000000000)

/* Guards all below. The thread sends under it, so a stream that left the list can be freed. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct list streams = { &streams, &streams };
static bool running;

static unsigned system_default(void)
{
	int fd = open("/proc/sys/net/ipv4/tcp_keepalive_time", O_RDONLY | O_CLOEXEC);
	char text[32] = "";
	ssize_t length = -1;
	int seconds;

	if (fd >= 0) {
		length = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	seconds = length > 0 ? atoi(text) : 0;
	return seconds > 0 ? (unsigned)seconds : DEFAULT_S;
}

static void send_keepalive(struct stream *s)
{
	lock_acquire(&s->lock);
	stream_progress(s);
	if (s->phase == STREAM_CONNECTED && message_can_control(s))
		message_post_keepalive(s);
	lock_release(&s->lock);
}

/* Sends the keepalives that are due. Returns the time of the next, UINT64_MAX: there is none. */
static uint64_t send_due(uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct list *pos;

	list_for_each(pos, &streams) {
		struct stream *s = list_entry(pos, struct stream, keepalive_link);

		if (s->keepalive_due_ns <= now) {
			send_keepalive(s);
			s->keepalive_due_ns = now + s->keepalive_s * SECOND_NS;
		}
		if (s->keepalive_due_ns < next)
			next = s->keepalive_due_ns;
	}
	return next;
}

static void *run(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!list_empty(&streams)) {
		uint64_t next = send_due(clock_now_ns());
		struct timespec until = { (time_t)(next / SECOND_NS), (long)(next % SECOND_NS) };

		pthread_cond_timedwait(&changed, &mutex, &until);
	}
	running = false;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static int start_thread(void)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return -rc;
	pthread_detach(thread);
	running = true;
	return 0;
}

int keepalive_start(struct stream *s)
{
	int rc = 0;

	pthread_mutex_lock(&mutex);
	if (!s->keepalive_s)
		s->keepalive_s = system_default();
	s->keepalive_due_ns = clock_now_ns() + s->keepalive_s * SECOND_NS;
	if (!s->keepalive)
		list_add_tail(&streams, &s->keepalive_link);
	s->keepalive = true;
	if (!running)
		rc = start_thread();
	else
		pthread_cond_signal(&changed);
	if (rc) {
		list_del(&s->keepalive_link);
		s->keepalive = false;
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

void keepalive_stop(struct stream *s)
{
	pthread_mutex_lock(&mutex);
	if (s->keepalive) {
		list_del(&s->keepalive_link);
		s->keepalive = false;
		if (running)
			pthread_cond_signal(&changed);
	}
	pthread_mutex_unlock(&mutex);
}

void keepalive_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	list_init(&streams);
	running = false;
}
