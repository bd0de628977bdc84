/*
 * CM held - requests that cannot be taken at this moment, but maybe at the next.
 *
 * Nobody listens on the port: programs put a listener away and make another between two phases
 * (perftest does), and meet a peer that is faster than any adapter lets it be. The listener's
 * backlog is full: its program is about to fetch. So both are held for a moment before they are
 * refused.
 *
 * Owner: the daemon's one thread. No more than CM_HELD_MAX; what comes beyond is refused at once.
 */
#ifndef DAEMON_CM_HELD_H
#define DAEMON_CM_HELD_H

#include <stdbool.h>

#include "daemon/cm_connection.h"

#define CM_HELD_MAX	   1024
#define CM_HELD_LISTEN_MS  100
#define CM_HELD_BACKLOG_MS 1000

/* False: it is not held. */
bool cm_held_add(struct cm *cm, const struct cm_origin *o, const struct ibcm_message *m,
		 int reason);

/* Somebody listens who did not, or has fetched a request. */
void cm_held_retry(struct cm *cm);

/* Without a word. */
void cm_held_forget_all(struct cm *cm);

#endif
