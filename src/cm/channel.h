/*
 * Channel - rdma_event_channel: a descriptor that is readable while events wait.
 *
 * In:  the program's descriptor, with the flags that it set (O_NONBLOCK).
 * Out: events as they come from verbatimd; cm/event.h makes them the program's.
 *
 * Any thread. channel_wait blocks.
 */
#ifndef CM_CHANNEL_H
#define CM_CHANNEL_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdint.h>

#include "ctl/protocol.h"

struct channel {
	struct rdma_event_channel base; /* first: what the program has */
	uint32_t number;
	atomic_uint waiters; /* threads in channel_wait */
};

static inline struct channel *channel_of(struct rdma_event_channel *base)
{
	return (struct channel *)base;
}

/* NULL with errno. */
struct channel *channel_create(void);

/*
 * Programs destroy channels under threads that wait there, and then end. Such a thread waits on, as
 * it would in the kernel: the channel stays until the process ends.
 */
void channel_destroy(struct channel *ch);

/*
 * Takes the next event; waits for it unless the descriptor is O_NONBLOCK. 0; -EAGAIN; -EINTR is not
 * returned; other -errno: verbatimd is gone.
 */
int channel_wait(struct channel *ch, struct ctl_cm_event *out);

#endif
