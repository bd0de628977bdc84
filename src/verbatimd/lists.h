/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists - tells an observer of processes, and of the listeners of rdma_cm.
 *
 * In:  LIST or CM_LIST; the observer's pace.
 * Out: PROCESS for each process that the observer may see, in slot order, with its arena; or
 *      CM_LISTENER for each identifier that listens; then LIST_END. What comes or goes meanwhile
 *      may be in it or not.
 *
 * Owner: the daemon's one thread. Only as much is produced as the observer's socket takes.
 */
#ifndef VERBATIMD_LISTS_H
#define VERBATIMD_LISTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void lists_on_list(struct client *c, struct fdmsg *m);

/* All that was queued for the client is sent: goes on if a list is under way. */
void lists_on_drained(struct client *c);

#endif
