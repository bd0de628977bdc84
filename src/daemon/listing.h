/*
 * Listing - tells an observer which processes there are, with their arenas.
 *
 * In:  LIST; the observer's pace.
 * Out: PROCESS for each process the observer may see, in slot order, then LIST_END. What comes and
 *      goes meanwhile may be in it or not.
 *
 * Owner: the daemon's one thread. Only as much is produced as the observer's socket takes.
 */
#ifndef DAEMON_LISTING_H
#define DAEMON_LISTING_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void listing_on_list(struct client *c, struct fdmsg *m);

/* The client has read all that was sent: go on, if a list is under way. */
void listing_on_drained(struct client *c);

#endif
