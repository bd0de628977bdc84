/*
 * CM held - requests that cannot be taken at this moment, but maybe at the next.
 *
 * Nobody listens on the port: programs put a listener away and make another between two phases
 * (perftest does), and meet a peer that is faster than any adapter lets it be. The listener's
 * backlog is full: its program is about to fetch. So both are held for a moment before they are
 * refused, in a queue for each of the two, as each is looked through for another reason.
 *
 * Owner: the daemon's one thread. No more than CM_HELD_MAX; what comes beyond is refused at once.
 */
#ifndef CMSERVER_CM_HELD_H
#define CMSERVER_CM_HELD_H

#include <stdbool.h>

#include "base/list.h"
#include "event/loop.h"

#define CM_HELD_MAX	   1024
#define CM_HELD_LISTEN_MS  100
#define CM_HELD_BACKLOG_MS 1000

struct cm;
struct cm_origin;
struct ibcm_message;

/* All in it have the same patience: the first is the first to lose it. */
struct cm_held_queue {
	struct cm *cm;
	struct list requests;
	struct loop_timer patience; /* of the first */
	int64_t patience_ms;
};

struct cm_held {
	struct cm_held_queue listener, room; /* what is waited for */
	unsigned count;
};

void cm_held_init(struct cm *cm);

/* False: it is not held. reason: of the refusal, should it come to that. */
bool cm_held_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		 int reason);

/* Somebody listens who did not, or for more. */
void cm_held_on_listen(struct cm *cm);

/* A program has fetched a request: there is room for one more. */
void cm_held_on_room(struct cm *cm);

/* Without a word. */
void cm_held_forget_all(struct cm *cm);

#endif
