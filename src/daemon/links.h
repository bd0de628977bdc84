/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links - the shared memory of each pair of processes, and the notices when one of them dies.
 *
 * In:  PEER requests; deaths.
 * Out: a memfd per unordered pair, the same from whichever end it is requested while verbatimd
 * keeps its descriptor (LINKS_KEPT, the newest ones); after that another one for both ends.
 *      NOTICE_LINK to the other end with each; NOTICE_DEATH to the other ends of a dead process's
 *      links.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_LINKS_H
#define DAEMON_LINKS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

/*
 * Links of which verbatimd keeps the descriptor, at most: whoever asks for one of them has the
 * memory that the other end was told of. So the number of links is not limited by that of
 * descriptors. Where a link's descriptor is gone, verbatimd offers both ends new memory, as the
 * next verbatimd would, and they settle which they use (link_move, shm/link.h). Where it may have
 * few descriptors, it is an eighth of them.
 */
#define LINKS_KEPT	   128
#define LONG_PROCESSES_MAX 16 /* while there are no more, links have long rings */

void links_init(struct daemon *d);

void links_on_peer(struct client *c, struct fdmsg *m);

/* Does nothing if c is not a process. */
void links_on_death(struct client *c);

/* The same without notices. */
void links_on_dismissal(struct client *c);

/* base/check.h: the links of a process. */
void links_check(const struct client *c);

#endif
