/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "cm/export.h"
#include "cm/session.h"

static uint64_t next_serial(void)
{
	static _Atomic uint64_t last;

	return ++last;
}

/*
 * A datagram socket that is connected to itself: verbatimd gets a copy, and writes and reads bytes.
 * The same socket serves every later verbatimd.
 */
static int make_descriptor(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), error;
	char stray;

	if (fd < 0)
		return -errno;
	/* Without a name the kernel chooses one that is free. */
	if (bind(fd, (struct sockaddr *)&name, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
	    connect(fd, (struct sockaddr *)&name, len) < 0) {
		error = -errno;
		close(fd);
		return error;
	}
	/*
	 * Connected, the socket takes no datagrams of others; those that came before are dropped.
	 */
	while (recv(fd, &stray, sizeof(stray), MSG_DONTWAIT) >= 0)
		;
	return fd;
}

/*
 * ------------------------------------------------------------------------------------------
 * Ended channels, oldest first. The oldest is reused first: a late thread finds its channel ended
 * for as long as possible.
 */

static struct {
	pthread_mutex_t lock;
	struct channel *first, *last;
} ended = { .lock = PTHREAD_MUTEX_INITIALIZER };

void channel_before_fork(void)
{
	pthread_mutex_lock(&ended.lock);
}

void channel_after_fork(void)
{
	pthread_mutex_unlock(&ended.lock);
}

static void give_away(struct channel *ch)
{
	ch->next = NULL;
	pthread_mutex_lock(&ended.lock);
	if (ended.first)
		ended.last->next = ch;
	else
		ended.first = ch;
	ended.last = ch;
	pthread_mutex_unlock(&ended.lock);
}

/* Without users: no thread can enter it. */
static struct channel *take_one(void)
{
	struct channel *ch;

	pthread_mutex_lock(&ended.lock);
	ch = ended.first;
	if (ch)
		ended.first = ch->next;
	pthread_mutex_unlock(&ended.lock);
	return ch ? ch : calloc(1, sizeof(*ch));
}

struct channel *channel_create(void)
{
	UNCANCELLED;
	struct channel *ch = take_one();
	int fd, rc;

	if (!ch)
		return NULL;
	rc = fd = make_descriptor();
	if (rc >= 0)
		rc = session_open_channel(&ch->in_session, fd);
	if (rc) {
		if (fd >= 0)
			close(fd);
		give_away(ch);
		errno = -rc;
		return NULL;
	}
	ch->base.fd = fd;
	ch->number = ch->in_session.number;
	ch->serial = next_serial();
	/* If verbatimd has just died, the next one answers that it does not know the channel. */
	ch->session = session_number();
	ch->is_silent = false;
	atomic_store(&ch->is_lost, false);
	atomic_store(&ch->users, 1);
	return ch;
}

bool channel_enter(struct channel *ch)
{
	unsigned users = atomic_load(&ch->users);

	do
		if (!users)
			return false;
	while (!atomic_compare_exchange_weak(&ch->users, &users, users + 1));
	return true;
}

static bool blocks(const struct channel *ch)
{
	int flags = fcntl(ch->base.fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* No thread is in it, and none can enter. */
static void end(struct channel *ch)
{
	UNCANCELLED;
	bool is_lost = atomic_load(&ch->is_lost);
	struct ctl_cm_ask ask = {
		.header = { .type = CTL_CM_DESTROY_CHANNEL },
		.channel = ch->number,
	};

	session_forget_channel(&ch->in_session);
	close(ch->base.fd);
	give_away(ch);
	if (!is_lost)
		session_ask_plain(&ask, NULL);
}

void channel_leave(void *channel)
{
	struct channel *ch = channel;

	if (atomic_fetch_sub(&ch->users, 1) == 1)
		end(ch);
}

void channel_destroy(struct channel *ch)
{
	atomic_store(&ch->did_block, blocks(ch));
	channel_leave(ch);
}

static void close_it(void *fd)
{
	close(*(int *)fd);
}

int channel_wait_ended(const struct channel *ch)
{
	/* A socket without a name or a peer: no datagram ever comes. */
	int fd = atomic_load(&ch->did_block) ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	char byte;
	int rc;

	if (fd < 0)
		return -EBADF;
	pthread_cleanup_push(close_it, &fd);
	rc = recv(fd, &byte, sizeof(byte), 0) < 0 ? -errno : -EBADF;
	pthread_cleanup_pop(1);
	return rc;
}

bool channel_is_gone(struct channel *ch, int rc)
{
	return atomic_load(&ch->is_lost) || rc == -ENOENT ||
	       (rc != -EAGAIN && ch->session != session_number());
}

void channel_lose(struct channel *ch)
{
	UNCANCELLED;
	int silent;

	atomic_store(&ch->is_lost, true);
	if (ch->is_silent)
		return;
	silent = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (silent < 0)
		return;
	ch->is_silent = dup3(silent, ch->base.fd, O_CLOEXEC) >= 0;
	close(silent);
}

/*
 * verbatimd keeps a byte in the descriptor while events wait, and a thread of this library sees to
 * it that some verbatimd does. Otherwise only a request finds out what there is.
 */
static bool is_told(struct channel *ch)
{
	return !atomic_load(&ch->is_lost) && ch->session == session_number() &&
	       session_is_watched();
}

/*
 * pthread_cancel may unwind this frame, which the address sanitizer does not see in C: its redzones
 * around `byte` would stay, and cleanup handlers use that stack.
 */
__attribute__((no_sanitize("address"))) int
channel_wait(struct channel *ch, int (*take)(struct channel *ch, void *arg), void *arg)
{
	const struct timespec pause = { .tv_nsec = 100 * 1000000 };
	bool looks = is_told(ch);
	char byte;
	int rc;

	for (;; looks = true) {
		/*
		 * MSG_PEEK: the byte stays. Signals interrupt recv as they would the kernel's
		 * read().
		 */
		if (looks && recv(ch->base.fd, &byte, sizeof(byte), MSG_PEEK) < 0)
			/* channel_lose has just replaced the socket. */
			return atomic_load(&ch->is_lost) ? -ENODEV : -errno;
		rc = take(ch, arg);
		if (rc == -ETIMEDOUT && !blocks(ch))
			return -EAGAIN;
		if (rc != -EAGAIN && rc != -ETIMEDOUT)
			return rc;
		if (rc == -ETIMEDOUT)
			nanosleep(&pause, NULL); /* others have the session's lock meanwhile */
	}
}

CM_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *ch = channel_create();

	return ch ? &ch->base : NULL;
}

CM_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	channel_destroy(channel_of(channel));
}
