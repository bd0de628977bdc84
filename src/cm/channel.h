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
	struct rdma_event_channel base; /* first: what the program has */
	uint32_t number;
	uint64_t serial;		   /* no other channel of this process has or had it */
	unsigned session;		   /* in which it was made */
	struct session_channel in_session; /* with base.fd, until it ends */
	atomic_bool is_lost; /* no verbatimd knows it any more, and all its identifiers were told */
	bool is_silent;	     /* base.fd is an eventfd that is never written; within a delivery */
	atomic_bool did_block; /* when it was destroyed: it was not O_NONBLOCK */
	atomic_uint users;     /* the program, until it destroys it, and threads inside; 0: ended */
	struct channel *next;  /* of those that ended */
};

static inline struct channel *channel_of(struct rdma_event_channel *base)
{
	return (struct channel *)base;
}

/* NULL with errno. */
struct channel *channel_create(void);

/*
 * Programs destroy channels under threads that wait there, and then exit (rping does). On Linux
 * such a thread keeps the channel's file until it returns: the close neither wakes it nor fails its
 * call, and it still gets events. So the channel ends here when the last such thread leaves. Until
 * then its descriptor stays open and verbatimd, also the next one, keeps it with its identifiers.
 * Identifiers left at the end end with it; the program can only destroy them.
 *
 * A program cannot know whether another thread has entered yet. So the memory of a channel is never
 * returned to the allocator, but reused for new channels. A thread that comes late finds the
 * channel ended (no users); or finds a new one there and waits for its events, as with a descriptor
 * number that was reused.
 */
void channel_destroy(struct channel *ch);

/*
 * After a request about the channel failed with rc: whether it is unknown to verbatimd, and so are
 * all identifiers that it has. Their program is told by DEVICE_REMOVAL, one by one (cm/event.c).
 */
bool channel_is_gone(struct channel *ch, int rc);

/*
 * They were told; within a delivery. From now on the descriptor is never readable: poll(2) has
 * nothing to wait for. That takes a second descriptor for a moment; without one the channel stays
 * as it is, and the next call for its events tries again.
 */
void channel_lose(struct channel *ch);

/*
 * Around all uses of a channel that another thread may destroy meanwhile. False: it ended.
 * channel_leave has the form of a cleanup handler; the last thread to leave ends the channel.
 */
bool channel_enter(struct channel *ch);
void channel_leave(void *ch);

/*
 * Calls `take` until it returns something else than -EAGAIN, and sleeps in between while there are
 * no events. Returns what `take` did; -EAGAIN: no events, and the descriptor is O_NONBLOCK; -EINTR:
 * a signal came whose handler lacks SA_RESTART. The thread may be cancelled while it sleeps.
 */
int channel_wait(struct channel *ch, int (*take)(struct channel *ch, void *arg), void *arg);

/*
 * For a thread that came after the end: sleeps like one that came before, where no event ever
 * comes. -EINTR as above; -EBADF: the descriptor was O_NONBLOCK. The thread may be cancelled.
 */
int channel_wait_in_vain(const struct channel *ch);

/* Handlers of a fork (cm/id.c). */
void channel_before_fork(void);
void channel_after_fork(void);

#endif
