/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM channel - an event channel of a program: its events, and the descriptor that tells of them.
 *
 * In:  events, from connections and requests.
 * Out: the same one by one (GET_EVENT); a byte in the program's descriptor for each, and none once
 *      all are fetched.
 *
 * The descriptor is a unix datagram socket that is connected to itself, of which the daemon has a
 * copy: so it outlives the daemon, and is given to the next one. A byte for each event wakes a
 * thread for each. A program that takes a byte out itself need not poll any more.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_CHANNEL_H
#define CMSERVER_CM_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cmserver/comm_ids.h"
#include "ctl/protocol.h"

struct client;
struct cm_client;
struct cm_id;

struct cm_channel {
	struct comm_id comm_id;
	struct list in_client;
	struct cm_client *owner;
	int fd;		  /* a copy of the program's event descriptor */
	unsigned notices; /* bytes that are in fd, at most */
	struct list events;
	unsigned event_count;
	struct list ids; /* whose events come here */
};

/* Belongs to its channel and to its identifier: it ends with either. */
struct cm_event {
	struct list in_channel;
	struct list in_id; /* of the identifier that it is about */
	struct cm_id *id;
	struct cm_channel *channel;
	struct ctl_cm_event body;

	/* cmserver/cm_save.h */
	uint32_t slot;
	uint32_t made_seq, index;
	uint64_t order;
};

/* Takes over fd on success. number: 0: a new one. 0 or -errno. */
int cm_channel_create(struct cm_client *owner, int fd, uint32_t number, struct cm_channel **out);

/* This client's channel of that number, or NULL. */
struct cm_channel *cm_channel_find(struct client *c, uint32_t number);

/*
 * Destroys its identifiers, too, as Linux does when a program closes the channel's file. The
 * program can then only destroy its halves of them.
 */
void cm_channel_destroy(struct cm_channel *ch);

/*
 * Posts an event that is not a connection's. made_seq: of the request that raises it, or 0. The
 * header, id and channel of the body are set when it is fetched. 0, -ENOSPC, -ENOMEM.
 */
int cm_channel_post(struct cm_id *id, const struct ctl_cm_event *body, uint32_t made_seq);

/*
 * Posts an event of the identifier's connection; then the caller completes the step with
 * cm_save_id. The same.
 */
int cm_channel_post_step(struct cm_id *id, const struct ctl_cm_event *body);

/* Posts an event that an earlier daemon saved. The same. */
int cm_channel_post_again(struct cm_id *id, const struct cm_event *saved);

/* The first event, which stays in the queue; NULL: there is none. */
struct cm_event *cm_channel_first(struct cm_channel *ch);
void cm_channel_drop(struct cm_event *e);

/* The program gets the event in the reply to this request. Its record stays until the next request.
 */
void cm_channel_give(struct cm_event *e, uint32_t seq);

/* Moves an identifier, with all its events in their order. */
void cm_channel_move(struct cm_id *id, struct cm_channel *to);

#endif
