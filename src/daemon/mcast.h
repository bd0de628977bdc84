/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast - which processes have members in which group.
 *
 * In:  ATTACH and DETACH, counted per process; MEMBERS; deaths.
 * Out: a bitmap of slots; NOTICE_MCAST_CHANGED to all processes of the user, the member included,
 *      when a process becomes a member or ceases to be one.
 *
 * Users do not share groups: the same MGID of two users is two groups.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_MCAST_H
#define DAEMON_MCAST_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

#define MCAST_GROUPS_PER_CLIENT 1024

void mcast_on_attach(struct client *c, struct fdmsg *m);
void mcast_on_detach(struct client *c, struct fdmsg *m);
void mcast_on_members(struct client *c, struct fdmsg *m);
void mcast_on_death(struct client *c);

/* The same without notices. */
void mcast_on_dismissal(struct client *c);

#endif
