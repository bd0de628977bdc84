/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links - the shared memory of each pair of processes, and the notices when one of them dies.
 *
 * In:  PEER requests; deaths.
 * Out: one memfd per unordered pair, the same however often and from whichever end it is requested;
 *      NOTICE_LINK to the other end; NOTICE_DEATH to the other ends of a dead process's links.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_LINKS_H
#define DAEMON_LINKS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void links_on_peer(struct client *c, struct fdmsg *m);

/* Does nothing if c is not a process. */
void links_on_death(struct client *c);

/* The same without notices. */
void links_on_dismissal(struct client *c);

/* base/check.h: the links of a process. */
void links_check(const struct client *c);

#endif
