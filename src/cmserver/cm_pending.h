/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM pending - connection requests that wait until a listener can take them.
 *
 * In:  REQs and SIDR_REQs that no listener takes now; new listeners; backlogs with room again.
 * Out: the same requests to a listener; after a time-out, refusals.
 *
 * A request waits for one of two reasons. No program listens on the port: some programs destroy a
 * listener and create the next between two phases (perftest does), and a peer on the same host is
 * faster than any adapter. Or the listener's backlog is full, and its program is about to fetch.
 * There is a queue for each reason, since each is searched on another occasion. While processes of
 * an earlier daemon are away (cmserver/cm_sessions.h) a listener may be among what they bring back:
 * then a request without one waits in the second queue, which is the more patient one.
 *
 * Owner: the daemon's one thread. No more than CM_PENDING_MAX; a request beyond that is refused at
 * once.
 */
#ifndef CMSERVER_CM_PENDING_H
#define CMSERVER_CM_PENDING_H

#include <stdbool.h>

#include "base/list.h"
#include "event/loop.h"

#define CM_PENDING_MAX	      1024
#define CM_PENDING_LISTEN_MS  100
#define CM_PENDING_BACKLOG_MS 1000

struct cm;
struct cm_origin;
struct ibcm_message;

/* All requests in it wait equally long, so the first one's deadline is the first. */
struct cm_pending_queue {
	struct cm *cm;
	struct list requests;
	struct loop_timer timeout; /* of the first */
	int64_t timeout_ms;
};

struct cm_pending {
	struct cm_pending_queue listener; /* requests that wait for a listener */
	struct cm_pending_queue room;	  /* for room in its backlog, or for its return */
	unsigned count;
};

/* Sets cm->pending. on_timeout is to call cm_pending_expire. 0 or -ENOMEM. */
int cm_pending_create(struct cm *cm, void (*on_timeout)(struct loop_timer *timer));
void cm_pending_destroy(struct cm_pending *pending);

/* reason: of the refusal after the time-out. False: the request is not kept. */
bool cm_pending_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		    int reason);

/* The first request's time-out is over: refuses all that are due. */
void cm_pending_expire(struct cm_pending_queue *q);

/* There is a new listener, one with a larger backlog, or one that has returned. */
void cm_pending_on_listen(struct cm *cm);

/* A program has fetched a request: there is room for one more. */
void cm_pending_on_room(struct cm *cm);

/* Sends no refusals. */
void cm_pending_forget_all(struct cm *cm);

#endif
