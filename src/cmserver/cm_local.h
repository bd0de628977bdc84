/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM local - the queue of messages between two ends on this host.
 *
 * In:  messages of one end. Out: the same in order, as structs, to cm_dispatch.c.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_LOCAL_H
#define CMSERVER_CM_LOCAL_H

#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "ctl/protocol.h"
#include "ibcm/message.h"

struct cm_local_message {
	struct list in_queue;
	uid_t uid;	  /* of both ends */
	uint32_t session; /* of the sender; 0: it has no identifier any more */
	uint8_t from[CTL_GID_BYTES], to[CTL_GID_BYTES];
	uint32_t ifindex;
	struct ibcm_message message;
};

/* Out of memory the message is lost, as it might be on a wire. */
void cm_local_send(struct list *queue, uid_t uid, uint32_t session,
		   const uint8_t from[CTL_GID_BYTES], const uint8_t to[CTL_GID_BYTES],
		   uint32_t ifindex, const struct ibcm_message *m);

/* The first, which is the caller's to free; NULL: there is none. */
struct cm_local_message *cm_local_take(struct list *queue);

void cm_local_drop_all(struct list *queue);

#endif
