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
 * One more, whose event has *cookie. attaches: the QP is to receive what is sent to the group. 0 or
 * -ENOMEM.
 */
int membership_add(struct id *id, const struct ctl_cm_address *address, bool attaches,
		   void *context, uint64_t *cookie);

/* Its event cannot be raised. */
void membership_drop(struct id *id, uint64_t cookie);

/* The event of a join is fetched: attaches the QP. False: the group was left since. */
bool membership_on_event(struct id *id, uint64_t cookie, struct rdma_cm_event *event);

/* Detaches the QP. 0; -EADDRNOTAVAIL: it has not joined that group. */
int membership_leave(struct id *id, const struct ctl_cm_address *address);

/* The identifier ends: its QP is gone or is the program's. */
void membership_leave_all(struct id *id);

#endif
