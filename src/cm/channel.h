/*
 * Channel - rdma_event_channel: a descriptor that is readable while events wait.
 *
 * In:  the program's descriptor, with the flags that it set (O_NONBLOCK).
 * Out: events as they come from verbatimd; cm/event.h makes them the program's.
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
	uint64_t serial;	/* no other channel of this process has or had it */
	unsigned session;	/* in which it was made */
	struct session_channel in_session; /* with base.fd, until it ends */
	atomic_bool is_lost;	/* no verbatimd knows it any more, and all its identifiers were told */
	bool is_silent;		/* base.fd is an eventfd that nobody writes to; within a delivery */
	atomic_bool did_block;	/* when it was destroyed: it was not O_NONBLOCK */
	atomic_uint users;	/* the program, until it destroys it, and who is inside; 0: it ended */
	struct channel *next;	/* of those that ended */
};

static inline struct channel *channel_of(struct rdma_event_channel *base)
{
	return (struct channel *)base;
}

/* NULL with errno. */
struct channel *channel_create(void);

/*
 * Programs destroy channels under threads that wait there, and then end (rping does). With Linux such a thread
 * has the channel's file until it returns: the close neither wakes it nor is an error to it, and events come
 * to it as before. So here the channel ends with the last of them: until then its descriptor stays open,
 * so its number is nothing else's, and verbatimd, also the next one, has it with its identifiers. Those that
 * are left then end with it in verbatimd, and are only to be destroyed.
 *
 * Whether such a thread is inside yet no program can know. So the memory of a channel is never given back to the
 * allocator, only to new channels: who comes late finds that it ended (no users), and nothing of what is left
 * there is used; or, after a new one was made there, waits for the events of that, as for a number of a
 * descriptor that was given again.
 */
void channel_destroy(struct channel *ch);

/*
 * After a request about the channel failed with rc: whether it is unknown to verbatimd, and so are
 * all identifiers that it has. Their program is told by DEVICE_REMOVAL, one by one (cm/event.c).
 */
bool channel_is_gone(struct channel *ch, int rc);

/*
 * They were; within a delivery. Whoever polls the descriptor has nothing to wait for: it is not
 * readable any more, whatever is in it. That takes a descriptor for a moment: if there is none it stays as
 * it is, and whoever comes for its events tries again.
 */
void channel_lose(struct channel *ch);

/*
 * Around all that a thread does with a channel which another may destroy meanwhile. False: it ended.
 * channel_leave is of the form of a cleanup handler; the last one that leaves ends the channel.
 */
bool channel_enter(struct channel *ch);
void channel_leave(void *ch);

/*
 * Calls `take` until it returns something else than -EAGAIN, and sleeps in between while there are
 * no events. What it returned; -EAGAIN: there are none, and the descriptor is O_NONBLOCK; -EINTR as
 * of any system call: a signal came whose handler was not set with SA_RESTART. The thread may be
 * cancelled while it sleeps.
 */
int channel_wait(struct channel *ch, int (*take)(struct channel *ch, void *arg), void *arg);

/*
 * For who came when it had ended: sleeps as if it had come before, where nothing is told any more. -EINTR as
 * above; -EBADF: the descriptor was O_NONBLOCK, whose calls do not sleep. The thread may be cancelled.
 */
int channel_wait_in_vain(const struct channel *ch);

/* Handlers of a fork (cm/id.c). */
void channel_before_fork(void);
void channel_after_fork(void);

#endif
