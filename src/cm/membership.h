/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Membership - the multicast groups that an identifier has joined.
 *
 * There is no subnet manager to ask: joining is attaching the QP when the program fetches the
 * event.
 *
 * Any thread; blocks no longer than the verbs do.
 */
#ifndef CM_MEMBERSHIP_H
#define CM_MEMBERSHIP_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/id.h"

/*
 * Adds a group, whose event has *cookie. attaches: the QP is to receive the group's datagrams. 0 or
 * -ENOMEM.
 */
int membership_add(struct id *id, const struct ctl_cm_address *address, bool attaches,
		   void *context, uint64_t *cookie);

/* Undoes membership_add: its event cannot be raised. */
void membership_drop(struct id *id, uint64_t cookie);

/* The program fetches the event of a join: attaches the QP. False: it has left the group since. */
bool membership_on_event(struct id *id, uint64_t cookie, struct rdma_cm_event *event);

/* Detaches the QP. 0; -EADDRNOTAVAIL: it has not joined that group. */
int membership_leave(struct id *id, const struct ctl_cm_address *address);

/* The identifier ends: its QP is destroyed, or the program's. */
void membership_leave_all(struct id *id);

#endif
