/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event - what verbatimd tells, as the program's rdma_cm_event; and what follows from it for the
 * QP.
 *
 * Any thread. Fetching blocks as the channel's descriptor says.
 */
#ifndef CM_EVENT_H
#define CM_EVENT_H

#include <rdma/rdma_cma.h>

#include "cm/id.h"

/* Puts an event into the identifier's channel. cookie comes back with it. 0 or -errno. */
int event_raise(struct id *id, enum rdma_cm_event_type type, int status, uint64_t cookie);

#endif
