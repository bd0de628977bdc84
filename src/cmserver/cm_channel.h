/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM channel - an event channel of a program: a queue, and the descriptor that is readable while it
 * has events.
 *
 * In:  events (cmserver/cm_event.h).
 * Out: a byte in the program's descriptor for each, and none once all are fetched.
 *
 * The descriptor is a unix datagram socket that is connected to itself, of which the daemon has a
 * copy: so it outlives the daemon, and is given to the next one. One byte per event wakes one
 * thread per event.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_CHANNEL_H
#define CMSERVER_CM_CHANNEL_H

#include <stdint.h>

#include "base/list.h"
#include "cmserver/comm_ids.h"

struct client;
struct cm_client;

struct cm_channel {
	struct comm_id comm_id;
	struct list in_client;
	struct cm_client *owner;
	int fd;		  /* a copy of the program's event descriptor */
	unsigned notices; /* bytes that are in fd, at most */
	struct list events;
	unsigned event_count;
	struct list ids; /* identifiers with their events here */
};

/* Takes over fd on success. number: 0: a new one. 0 or -errno. */
int cm_channel_create(struct cm_client *owner, int fd, uint32_t number, struct cm_channel **out);

/* This client's channel of that number, or NULL. */
struct cm_channel *cm_channel_find(struct client *c, uint32_t number);

/* The channel has no identifiers any more (cm_teardown.h). */
void cm_channel_destroy(struct cm_channel *ch);

/* An event was put into its queue. */
void cm_channel_notify(struct cm_channel *ch);

/* The last event was taken out of it. */
void cm_channel_drain(struct cm_channel *ch);

#endif
