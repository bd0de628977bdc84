/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM event - an event that a program has not fetched yet.
 *
 * In:  events, from connections and requests.
 * Out: the events one by one (GET_EVENT), in the order of their channel; a record for the next
 *      daemon (cmserver/cm_store.h).
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_EVENT_H
#define CMSERVER_CM_EVENT_H

#include <stdint.h>

#include "base/list.h"
#include "ctl/protocol.h"

struct cm_channel;
struct cm_id;

/* Belongs to its channel and to its identifier: it ends with either. */
struct cm_event {
	struct list in_channel;
	struct list in_id; /* of the identifier that it is about */
	struct cm_id *id;
	struct cm_channel *channel;
	struct ctl_cm_event body;

	/* cmserver/cm_store.h */
	uint32_t slot;
	uint32_t made_seq, index;
	uint64_t order;
};

/*
 * Posts an event that is not a connection's. made_seq: of the request that raises it, or 0. The
 * header, id and channel of the body are set when it is fetched. 0, -ENOSPC, -ENOMEM.
 */
int cm_event_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq);

/*
 * Posts an event of the identifier's connection; then the caller completes the step with
 * cm_connection_save_id. The same.
 */
int cm_event_post_step(struct cm_id *id, const struct ctl_cm_event *body);

/* Posts an event that an earlier daemon saved. The same. */
int cm_event_post_again(struct cm_id *id, const struct cm_event *saved);

/* The first event, which stays in the queue; NULL: there is none. */
struct cm_event *cm_event_first(struct cm_channel *ch);
void cm_event_drop(struct cm_event *e);

/*
 * The program gets the event in the reply to this request. Its record stays until the next request.
 */
void cm_event_give(struct cm_event *e, uint32_t seq);

/* Moves an identifier to another channel, with all its events in their order. */
void cm_event_move_id(struct cm_id *id, struct cm_channel *to);

#endif
