/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/eventfd.h"
#include "base/sleeper.h"

/* The parent keeps its events; the child's CQs have dropped their part. */
static void reset_after_fork(struct live_object *node)
{
	struct channel *channel = container_of(node, struct channel, live);

	lock_init(&channel->lock);
	list_init(&channel->pending);
	channel->withdrawn = 0;
	channel->sleep = CHANNEL_AWAKE;
	eventfd_renew(&channel->ib.fd);
}

int channel_create(struct ibv_context *context, struct channel **channel)
{
	struct channel *new = calloc(1, sizeof(*new));

	if (!new) {
		cause_report(CAUSE_MEMORY_EXHAUSTED, 0, "completion channel");
		return -ENOMEM;
	}
	new->ib.context = context;
	new->ib.fd = eventfd_create();
	if (new->ib.fd < 0) {
		int error = new->ib.fd;

		cause_report(CAUSE_MEMORY_EXHAUSTED, 0,
			     "completion channel: no descriptor (errno %d)", -error);
		free(new);
		return error;
	}
	lock_init(&new->lock);
	list_init(&new->pending);
	new->live.after_fork = reset_after_fork;
	*channel = new;
	return 0;
}

int channel_destroy(struct channel *channel)
{
	int users;

	lock_acquire(&channel->lock);
	users = channel->ib.refcnt;
	lock_release(&channel->lock);
	if (users) {
		cause_report(CAUSE_BUSY_CHANNEL, 0, "%d CQs", users);
		return -EBUSY;
	}
	close(channel->ib.fd);
	lock_fini(&channel->lock);
	free(channel);
	return 0;
}

void channel_attach(struct channel *channel, struct channel_cq *user, struct cq *cq)
{
	user->cq = cq;
	lock_acquire(&channel->lock);
	channel->ib.refcnt++;
	lock_release(&channel->lock);
}

/* The channel whose sleeper the calling thread is, while it looks. */
static _Thread_local struct channel *looks_for __attribute__((tls_model("initial-exec")));

void channel_notify(struct channel *channel, struct channel_cq *user)
{
	lock_acquire(&channel->lock);
	if (user->pending++ == 0)
		list_add_tail(&channel->pending, &user->link);
	if (looks_for == channel && channel->sleep == CHANNEL_SLEEPS) {
		channel->sleep = CHANNEL_HANDED;
	} else {
		eventfd_add(channel->ib.fd);
		if (channel->sleep == CHANNEL_SLEEPS)
			sleeper_wake();
	}
	lock_release(&channel->lock);
}

/*
 * Invariant: count of the descriptor + readers between read and lock + 1 if the sleeper has made
 * an event for itself - withdrawn = sum of the CQs' `pending`. A reader that finds withdrawn > 0
 * gives up its count, for an event that was dropped. Any other reader finds an event.
 */
static struct cq *take_locked(struct channel *channel) REQUIRES(channel->lock)
{
	struct channel_cq *user;

	if (channel->withdrawn > 0) {
		channel->withdrawn--;
		return NULL;
	}
	if (list_empty(&channel->pending)) /* the program read the descriptor itself */
		return NULL;
	user = list_entry(channel->pending.next, struct channel_cq, link);
	list_del(&user->link);
	if (--user->pending > 0)
		list_add_tail(&channel->pending, &user->link);
	user->reported++;
	return user->cq;
}

int channel_take(struct channel *channel, struct cq **cq)
{
	struct cq *taken;

	do {
		if (eventfd_take(channel->ib.fd) < 0)
			return -1;
		lock_acquire(&channel->lock);
		taken = take_locked(channel);
		lock_release(&channel->lock);
	} while (!taken);
	*cq = taken;
	return 0;
}

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

bool channel_sleep_begin(struct channel *channel)
{
	bool sleep;

	if (is_nonblocking(channel->ib.fd))
		return false;
	lock_acquire(&channel->lock);
	if (channel->sleep == CHANNEL_HANDED) /* to a look that a signal handler has left */
		eventfd_add(channel->ib.fd);
	sleep = list_empty(&channel->pending);
	channel->sleep = sleep ? CHANNEL_SLEEPS : CHANNEL_AWAKE;
	lock_release(&channel->lock);
	return sleep;
}

void channel_look_begin(struct channel *channel)
{
	looks_for = channel;
}

struct cq *channel_sleep_end(struct channel *channel)
{
	struct cq *cq = NULL;

	looks_for = NULL;
	lock_acquire(&channel->lock);
	if (channel->sleep == CHANNEL_HANDED)
		cq = take_locked(channel);
	channel->sleep = CHANNEL_AWAKE;
	lock_release(&channel->lock);
	return cq;
}

void channel_look_left(void)
{
	looks_for = NULL;
}

uint32_t channel_detach(struct channel *channel, struct channel_cq *user)
{
	uint32_t reported;

	lock_acquire(&channel->lock);
	if (user->pending > 0) {
		list_del(&user->link);
		channel->withdrawn +=
			user->pending - eventfd_withdraw(channel->ib.fd, user->pending);
		user->pending = 0;
	}
	reported = user->reported;
	channel->ib.refcnt--;
	lock_release(&channel->lock);
	return reported;
}
