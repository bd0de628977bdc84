/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/close_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (64 << 10)
#define IDLE_S	    1
#define UNREAD_MAX  64

struct job {
	struct job *next;
	int fd;
	bool is_client;
};

/* A user with descriptors that are queued or being closed. */
struct user {
	struct user *next;
	uid_t uid;
	struct job *first, **end;
	unsigned queued, busy;
};

static struct {
	pthread_mutex_t lock; /* guards all below; never held over a close */
	pthread_cond_t work;
	struct user *users; /* in the order of their turns */
	unsigned queued, threads;
	unsigned idle; /* threads that wait, start, or are about to look for a job */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER };

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

/*
 * ------------------------------------------------------------------------------------------
 * Under the lock.
 */

static struct user **find(uid_t uid)
{
	struct user **at = &pool.users;

	while (*at && (*at)->uid != uid)
		at = &(*at)->next;
	return at;
}

/* Finds or creates. NULL: out of memory. */
static struct user *get_user(uid_t uid)
{
	struct user **at = find(uid), *user = *at;

	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (user) {
		user->uid = uid;
		user->end = &user->first;
	}
	*at = user;
	return user;
}

static void drop_user_if_done(struct user *u)
{
	if (u->queued || u->busy)
		return;
	*find(u->uid) = u->next;
	free(u);
}

/* How many of the queued jobs may begin now: more threads than that would find nothing to do. */
static unsigned count_ready(void)
{
	unsigned ready = 0;

	for (struct user *u = pool.users; u; u = u->next) {
		unsigned room = CLOSE_POOL_THREADS_OF_USER - u->busy;

		ready += u->queued < room ? u->queued : room;
	}
	return ready;
}

/* Users take turns. */
static void move_to_end(struct user **at)
{
	struct user *u = *at;

	*at = u->next;
	u->next = NULL;
	while (*at)
		at = &(*at)->next;
	*at = u;
}

/* The next job of a user that does not keep all of its threads busy; finish() ends it. */
static struct job *take(struct user **whose)
{
	struct user **at = &pool.users, *u;
	struct job *job;

	while (*at && (!(*at)->queued || (*at)->busy == CLOSE_POOL_THREADS_OF_USER))
		at = &(*at)->next;
	u = *at;
	if (!u)
		return NULL;
	job = u->first;
	u->first = job->next;
	if (!u->first)
		u->end = &u->first;
	u->queued--;
	u->busy++;
	pool.queued--;
	move_to_end(at);
	*whose = u;
	return job;
}

/* Releases the lock meanwhile. */
static void finish(struct user *u, struct job *job)
{
	pthread_mutex_unlock(&pool.lock);
	close_one(job->fd, job->is_client);
	free(job);
	pthread_mutex_lock(&pool.lock);
	u->busy--;
	drop_user_if_done(u);
}

/*
 * ------------------------------------------------------------------------------------------
 * The threads.
 */

static struct job *wait_for_job(struct user **whose)
{
	struct timespec until;
	struct job *job = take(whose);

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_S;
	while (!job) {
		int rc = pthread_cond_timedwait(&pool.work, &pool.lock, &until);

		job = take(whose);
		if (rc == ETIMEDOUT)
			break;
	}
	return job;
}

static void *work(void *unused)
{
	struct user *whose;
	struct job *job;

	pthread_mutex_lock(&pool.lock);
	while ((job = wait_for_job(&whose))) {
		pool.idle--;
		finish(whose, job);
		pool.idle++;
	}
	pool.idle--;
	pool.threads--;
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

/* Caller holds the lock. False: there is no thread, and none can be started. */
static bool start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (count_ready() <= pool.idle || pool.threads == CLOSE_POOL_THREADS)
		return true;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = pthread_create(&thread, &attr, work, NULL);
	pthread_attr_destroy(&attr);
	pool.threads += !rc;
	pool.idle += !rc;
	return pool.threads;
}

static void add(uid_t uid, int fd, bool is_client)
{
	struct job *job = malloc(sizeof(*job));
	struct user *u;

	pthread_mutex_lock(&pool.lock);
	u = job ? get_user(uid) : NULL;
	if (!u) {
		pthread_mutex_unlock(&pool.lock);
		close_one(fd, is_client);
		free(job);
		return;
	}
	*job = (struct job){ .fd = fd, .is_client = is_client };
	*u->end = job;
	u->end = &job->next;
	u->queued++;
	pool.queued++;
	pthread_cond_signal(&pool.work);
	job = start_thread() ? NULL : take(&u);
	if (job)
		finish(u, job);
	pthread_mutex_unlock(&pool.lock);
}

static rlim_t limit(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) ? 0 : l.rlim_cur;
}

bool close_pool_has(uid_t uid)
{
	bool any;

	pthread_mutex_lock(&pool.lock);
	any = *find(uid) != NULL;
	pthread_mutex_unlock(&pool.lock);
	return any;
}

bool close_pool_is_behind(uid_t uid)
{
	rlim_t most = limit() / 8;
	struct user *u;
	bool behind;

	if (most > CLOSE_POOL_BEHIND_MAX)
		most = CLOSE_POOL_BEHIND_MAX;
	if (most < CLOSE_POOL_BEHIND_MIN)
		most = CLOSE_POOL_BEHIND_MIN;
	pthread_mutex_lock(&pool.lock);
	u = *find(uid);
	behind = u && u->queued >= most;
	pthread_mutex_unlock(&pool.lock);
	return behind;
}

bool close_pool_is_full(void)
{
	rlim_t most = limit() / 2;
	bool full;

	pthread_mutex_lock(&pool.lock);
	full = pool.queued > CLOSE_POOL_BEHIND_MIN && pool.queued >= most;
	pthread_mutex_unlock(&pool.lock);
	return full;
}

void close_pool_close(uid_t uid, int fd)
{
	if (fd >= 0)
		add(uid, fd, false);
}

void close_pool_hang_up(uid_t uid, int sock)
{
	shutdown(sock, SHUT_RDWR);
	add(uid, sock, true);
}
