/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channel - completion channels: the descriptor that a program waits on for its CQs.
 *
 * In:  CQs whose arming was met (channel_notify).
 * Out: one CQ per event (channel_take).
 *
 * The descriptor is an eventfd that counts pending events, so it is level-triggered in poll and
 * epoll and can be set to O_NONBLOCK. What it counts is the sum of cq->events_pending.
 *
 * Lock: channel->lock, taken inside CQ locks.
 */
#ifndef OBJECT_CHANNEL_H
#define OBJECT_CHANNEL_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "object/live_object.h"

struct cq;

struct channel {
	struct ibv_comp_channel ib; /* ib.fd: an eventfd (semaphore) that counts pending events */
	struct lock lock;	    /* guards what follows, and ib.refcnt */
	struct list pending;	    /* CQs with events_pending > 0 (cq.pending_link) */
	/* Events withdrawn whose count a reader had already taken: that many readers wait again. */
	uint32_t withdrawn;
	struct live_object live;
};

static inline struct channel *channel_of(struct ibv_comp_channel *ib)
{
	return (struct channel *)ib;
}

/* 0, -ENOMEM, -EMFILE... with a cause. */
int channel_create(struct ibv_context *context, struct channel **channel);

/* 0, or -EBUSY while CQs use it. */
int channel_destroy(struct channel *channel);

/* A CQ begins to use the channel. */
void channel_attach(struct channel *channel);

/* One event of the CQ, which the caller keeps from being destroyed (cq->lock, or a QP's that uses it). */
void channel_notify(struct channel *channel, struct cq *cq);

/*
 * The CQ of the oldest event, which counts as reported from now on. Blocks in read() on the
 * descriptor: 0, or -1 with errno (EAGAIN with O_NONBLOCK, EINTR).
 */
int channel_take(struct channel *channel, struct cq **cq);

/*
 * The CQ is destroyed: drops its events that were not fetched, lets go of the channel, and returns
 * how many events were fetched. Does not block.
 */
uint32_t channel_detach(struct channel *channel, struct cq *cq);

#endif
