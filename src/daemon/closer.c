#include "daemon/closer.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)
#define IDLE_S	    1
#define UNREAD_MAX  64

struct job {
	struct job *next;
	uid_t uid;
	int fd;
	bool is_client;
};

/* What a thread has in hand. */
struct hand {
	bool is_full;
	uid_t uid;
};

static struct {
	pthread_mutex_t lock; /* guards all below; never held over a close */
	pthread_cond_t work;
	struct job *first, **end;
	unsigned queued, threads, idle;
	struct hand hands[CLOSER_THREADS];
} closer = { .lock = PTHREAD_MUTEX_INITIALIZER, .end = &closer.first };

static void close_one(int fd, bool is_client)
{
	char byte;

	/* Closing over an unread request would reset the connection before the answer is read. */
	for (unsigned i = 0; is_client && i < UNREAD_MAX; i++) {
		if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0)
			break;
	}
	close(fd);
}

/* ------------------------------------------------------------------------------------------
 * Under the lock.
 */

static bool may_go_on(uid_t uid)
{
	unsigned busy = 0;

	for (unsigned i = 0; i < CLOSER_THREADS; i++)
		busy += closer.hands[i].is_full && closer.hands[i].uid == uid;
	return busy < CLOSER_THREADS_OF_USER;
}

/* The next job of a user whose others do not take long. */
static struct job *take(void)
{
	struct job **at = &closer.first, *job;

	while (*at && !may_go_on((*at)->uid))
		at = &(*at)->next;
	job = *at;
	if (!job)
		return NULL;
	*at = job->next;
	if (closer.end == &job->next)
		closer.end = at;
	closer.queued--;
	return job;
}

static struct hand *free_hand(void)
{
	struct hand *h = closer.hands;

	while (h->is_full)
		h++;
	return h;
}

/* ------------------------------------------------------------------------------------------
 * The threads.
 */

static struct job *wait_for_job(void)
{
	struct timespec until;
	struct job *job = take();

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_S;
	closer.idle++;
	while (!job) {
		int rc = pthread_cond_timedwait(&closer.work, &closer.lock, &until);

		job = take();
		if (rc == ETIMEDOUT)
			break;
	}
	closer.idle--;
	return job;
}

static void *work(void *unused)
{
	struct job *job;

	pthread_mutex_lock(&closer.lock);
	while ((job = wait_for_job())) {
		struct hand *hand = free_hand();

		*hand = (struct hand){ true, job->uid };
		pthread_mutex_unlock(&closer.lock);
		close_one(job->fd, job->is_client);
		free(job);
		pthread_mutex_lock(&closer.lock);
		hand->is_full = false;
	}
	closer.threads--;
	pthread_mutex_unlock(&closer.lock);
	return NULL;
}

/* Caller holds the lock. Whether there is somebody to do it. */
static bool start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (closer.queued <= closer.idle || closer.threads == CLOSER_THREADS)
		return true;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&thread, &attr, work, NULL);
	pthread_attr_destroy(&attr);
	closer.threads += !rc;
	return closer.threads;
}

static void add(uid_t uid, int fd, bool is_client)
{
	struct job *job = malloc(sizeof(*job));

	if (!job) {
		close_one(fd, is_client);
		return;
	}
	*job = (struct job){ .uid = uid, .fd = fd, .is_client = is_client };
	pthread_mutex_lock(&closer.lock);
	*closer.end = job;
	closer.end = &job->next;
	closer.queued++;
	pthread_cond_signal(&closer.work);
	job = start_thread() ? NULL : take();
	pthread_mutex_unlock(&closer.lock);
	if (job) {
		close_one(job->fd, job->is_client);
		free(job);
	}
}

void closer_close(uid_t uid, int fd)
{
	if (fd >= 0)
		add(uid, fd, false);
}

void closer_hang_up(uid_t uid, int sock)
{
	shutdown(sock, SHUT_RDWR);
	add(uid, sock, true);
}
