/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channel - completion channels, on which programs wait for their CQs.
 *
 * In:  events of armed CQs (channel_notify).
 * Out: one CQ per event (channel_take).
 *
 * The descriptor is an eventfd (EFD_SEMAPHORE) that counts pending events: the sum of
 * channel_cq.pending. So it is level-triggered in poll and epoll, and programs can set O_NONBLOCK.
 * An event that a thread makes for itself (channel_look_begin) may pass it by.
 *
 * The child of a fork has a copy of each channel, with a descriptor of its own and no events.
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

/* The events of a CQ, as a part of it. channel->lock guards them. */
struct channel_cq {
	struct cq *cq;
	struct list link;  /* in channel->pending, while there are events */
	uint32_t pending;  /* not yet fetched by ibv_get_cq_event */
	uint32_t reported; /* fetched; destroy waits until they are acknowledged */
};

struct channel {
	struct ibv_comp_channel ib; /* ib.fd is the eventfd */
	struct lock lock;	    /* guards all below, and ib.refcnt */
	struct list pending;	    /* struct channel_cq with events */
	/* dropped events whose count a reader has already taken: so many readers wait again */
	uint32_t withdrawn;
	enum channel_sleep {
		CHANNEL_AWAKE,
		CHANNEL_SLEEPS, /* the sleeper (base/sleeper.h) waits for an event, or looks */
		CHANNEL_HANDED, /* it made one in its look, not in the descriptor's count */
	} sleep;
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

/* Counts a CQ that uses the channel. */
void channel_attach(struct channel *channel, struct channel_cq *user, struct cq *cq);

/* Adds an event of the CQ. The caller holds cq->lock, or the lock of a QP that uses the CQ. */
void channel_notify(struct channel *channel, struct channel_cq *user);

/*
 * Takes the oldest event, which counts as reported from now on. Blocks in read() of the descriptor:
 * 0, or -1 and errno (EAGAIN with O_NONBLOCK, EINTR).
 */
int channel_take(struct channel *channel, struct cq **cq);

/*
 * The calling thread, the sleeper, waits for the next event elsewhere than in read(): from here to
 * channel_sleep_end sleeper_wake tells it of events that other threads make. These are in the
 * descriptor, for whichever thread reads it: the sleeper may leave by a signal handler's longjmp.
 * False: it has to call channel_take, as there is an event already, or the program has set
 * O_NONBLOCK.
 */
bool channel_sleep_begin(struct channel *channel);
/*
 * It looks, until channel_sleep_end: the first event that the calling thread itself makes is its
 * own, and not in the descriptor, which spares two system calls.
 */
void channel_look_begin(struct channel *channel);
/* Its own event, which counts as reported from now on; NULL: there is none. */
struct cq *channel_sleep_end(struct channel *channel);
/*
 * The calling thread looks for no channel, though it has not called channel_sleep_end: a signal
 * handler has left its look by longjmp.
 */
void channel_look_left(void);

/*
 * For a CQ that is being destroyed: drops its pending events, and leaves the channel. Returns how
 * many of its events were fetched. Does not block.
 */
uint32_t channel_detach(struct channel *channel, struct channel_cq *user);

#endif
