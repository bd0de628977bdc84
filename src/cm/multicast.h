/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast - the groups that an identifier has joined.
 *
 * There is no subnet manager to ask: joining is attaching the QP, and the event comes at once.
 */
#ifndef CM_MULTICAST_H
#define CM_MULTICAST_H

#include <rdma/rdma_cma.h>

#include "cm/id.h"

/* The event of a join is fetched: attaches the QP. False: the group was left since. */
bool multicast_on_event(struct id *id, uint64_t cookie, struct rdma_cm_event *event);

/* The identifier ends: its QP is gone or is the program's. */
void multicast_leave_all(struct id *id);

#endif
