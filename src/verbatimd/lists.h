/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists - sends an observer the list of processes, or of rdma_cm's listeners.
 *
 * In:  LIST or CM_LIST; the observer's pace.
 * Out: PROCESS for each process that the observer may see, in slot order, with its arena; or
 *      CM_LISTENER for each identifier that listens; then LIST_END. Processes that come or go
 *      meanwhile may be in it or not.
 *
 * Owner: the daemon's one thread. It sends only as much at a time as the observer's socket takes.
 */
#ifndef VERBATIMD_LISTS_H
#define VERBATIMD_LISTS_H

#include "ctl/fdmsg.h"
#include "daemon/client.h"

void lists_on_list(struct client *c, struct fdmsg *m);

/* All that was queued for the client is sent: continues a list that is under way. */
void lists_on_drained(struct client *c);

#endif
