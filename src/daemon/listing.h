/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listing - sends an observer the list of processes, with their arenas.
 *
 * In:  LIST; the observer's pace.
 * Out: PROCESS for each process the observer may see, in slot order, then LIST_END. A process that
 *      comes or goes meanwhile may be in it or not.
 *
 * Owner: the daemon's one thread. Only as much is produced as the observer's socket takes.
 */
#ifndef DAEMON_LISTING_H
#define DAEMON_LISTING_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void listing_on_list(struct client *c, struct fdmsg *m);

/* All that was queued for the client is sent: goes on if a list is under way. */
void listing_on_drained(struct client *c);

#endif
