/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channel - rdma_event_channel: a descriptor that is readable while events wait.
 *
 * In:  the program's descriptor, with the flags that it set (O_NONBLOCK).
 * Out: events as they come from verbatimd; cm/event.c makes them the program's.
 *
 * Any thread. channel_wait blocks, between channel_enter and channel_leave.
 */
#ifndef CM_CHANNEL_H
#define CM_CHANNEL_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/session.h"
#include "ctl/protocol.h"

struct channel {
	struct rdma_event_channel base; /* first: the program's pointer */
	uint32_t number;
	uint64_t serial;  /* unique among all channels that this process ever had */
	unsigned session; /* that the channel was made in */
	struct session_channel in_session; /* with base.fd, until it ends */
	atomic_bool is_lost;   /* no verbatimd knows it any more, and all its identifiers had
				  DEVICE_REMOVAL */
	bool is_silent;	       /* base.fd is an eventfd that is never written; within a delivery */
	atomic_bool did_block; /* it was not O_NONBLOCK when it was destroyed */
	atomic_uint users;     /* threads inside, and the program until it destroys it; 0: ended */
	struct channel *next;  /* of the ended channels */
};

static inline struct channel *channel_of(struct rdma_event_channel *base)
{
	return (struct channel *)base;
}

/* NULL with errno. */
struct channel *channel_create(void);

/*
 * Programs destroy channels on which threads still wait, and then exit (rping does). On Linux such
 * a thread keeps the channel's file until it returns: close() neither wakes it nor fails its call,
 * and it still gets events. So a channel ends when the last such thread leaves. Until then its
 * descriptor stays open, and each verbatimd keeps the channel with its identifiers. Identifiers
 * that are left then end with the channel; the program can only destroy them.
 *
 * A program cannot know whether another thread has entered yet. So the memory of a channel is never
 * freed, but reused for new channels. A late thread finds that the channel has ended (no users); or
 * it finds a new channel there and waits for its events, as with a descriptor number that was
 * reused.
 */
void channel_destroy(struct channel *ch);

/*
 * A request about the channel failed with rc. True: verbatimd does not know the channel, nor its
 * identifiers. The program gets DEVICE_REMOVAL for each of them (cm/event.c).
 */
bool channel_is_gone(struct channel *ch, int rc);

/*
 * All identifiers had DEVICE_REMOVAL; within a delivery. From now on the descriptor is never
 * readable, so that poll(2) does not spin. This takes a second descriptor for a moment. Without one
 * the channel stays as it is, and the next call for its events tries again.
 */
void channel_lose(struct channel *ch);

/*
 * Around all uses of a channel that another thread may destroy meanwhile. False: the channel has
 * ended. channel_leave has the form of a cleanup handler; the last thread to leave ends the
 * channel.
 */
bool channel_enter(struct channel *ch);
void channel_leave(void *ch);

/*
 * Sleeps while the descriptor tells of no event, then calls `take`, until that returns anything but
 * -EAGAIN and -ETIMEDOUT (verbatimd does not answer: it may be stopped). Returns take's result;
 * -EAGAIN: no events, or no answer, and the descriptor is O_NONBLOCK; -EINTR: a signal came whose
 * handler lacks SA_RESTART. The thread may be cancelled while it sleeps.
 *
 * With O_NONBLOCK, and a verbatimd, the call asks for no event that comes after it was called: its
 * program looks for completions and events by turns, and an event must not overtake completions
 * that it was behind.
 */
int channel_wait(struct channel *ch, int (*take)(struct channel *ch, void *arg), void *arg);

/*
 * For a thread that enters after the channel has ended: sleeps like a thread that entered before,
 * without events. -EINTR as above; -EBADF: the descriptor was O_NONBLOCK. The thread may be
 * cancelled.
 */
int channel_wait_ended(const struct channel *ch);

/* Handlers of a fork (cm/id.c). */
void channel_before_fork(void);
void channel_after_fork(void);

#endif
