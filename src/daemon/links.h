/*
 * Links - the shared memory of each pair of processes, and who is told when one of them dies.
 *
 * In:  PEER requests; deaths.
 * Out: one memfd per unordered pair, the same however often and by whichever end it is asked for;
 *      NOTICE_LINK to the other end; NOTICE_DEATH to all ends of a dead process's links.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_LINKS_H
#define DAEMON_LINKS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void links_on_peer(struct client *c, struct fdmsg *m);

/* c may be no process: then there is nothing to do. */
void links_on_death(struct client *c);

/* The same without telling anybody. */
void links_on_dismissal(struct client *c);

#endif
