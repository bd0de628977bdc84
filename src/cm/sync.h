/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Synchronous identifiers - calls that wait for the event that answers them.
 *
 * A synchronous identifier has a channel of its own, and keeps the last event in base.event.
 *
 * Any thread; blocks as the channel's descriptor says.
 */
#ifndef CM_SYNC_H
#define CM_SYNC_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

#include "cm/id.h"

/*
 * A call that an event answers begins with this, before it makes the event possible: after that
 * another thread may take the event, and end the identifier, before the call returns. NULL: not
 * synchronous.
 */
static inline struct id *sync_begin(struct id *id)
{
	return id->is_sync ? id : NULL;
}

/*
 * At the end of such a call: a synchronous identifier waits for the event, and keeps it in
 * base.event. `waiting`: of sync_begin. Returns as exported functions do.
 */
int sync_complete(struct id *waiting);

/*
 * The next event of a synchronous identifier that may be an answer: ADDR_CHANGE is a hint. 0 or -1
 * with errno.
 */
int sync_next_answer(struct id *id, struct rdma_cm_event **out);

/* Acknowledges base.event, if there is one. */
void sync_drop_event(struct id *id);

#endif
