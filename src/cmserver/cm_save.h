/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM save - identifiers with their connections, and events, as records of the process's store.
 *
 * In:  identifiers and events, whenever they change.
 * Out: records (cmserver/cm_store.h), which cmserver/cm_restore.h reads.
 *
 * An event and the state of the connection that raised it are two records. The event, with its
 * index, is written first, then the state, with the number of events raised so far. An event whose
 * index is higher than that number belongs to a step that was not completed. Such an event is
 * dropped: the connection is as it was before the step, and the message that led to it is repeated.
 *
 * When the program fetches an event, its record stays, with the seq of that request. It is dropped
 * at the next request, which shows that the reply has arrived.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_CM_SAVE_H
#define CMSERVER_CM_SAVE_H

#include <stdint.h>

#include "cmserver/cm_channel.h"
#include "cmserver/cm_id.h"
#include "cmserver/cm_store.h"
#include "ibcm/saved.h"

enum cm_record_kind {
	CM_RECORD_NONE = 0,
	CM_RECORD_ID,
	CM_RECORD_EVENT,
};

struct cm_record_id {
	uint32_t kind;
	uint32_t number, channel;
	uint32_t made_seq;
	uint32_t space, qp_type;
	uint32_t raised; /* so many events of connections are complete */
	uint32_t backlog;
	uint32_t bind_flags;
	uint8_t is_bound, is_listening, had_connection, has_connection;
	struct ctl_cm_address local;

	/* The connection. */
	uint8_t is_local, is_ud;
	uint8_t local_gid[CTL_GID_BYTES], remote_gid[CTL_GID_BYTES];
	uint32_t ifindex;
	struct connection_saved end;
};

struct cm_record_event {
	uint32_t kind;
	uint32_t id;
	uint32_t made_seq;  /* of RAISE */
	uint32_t given_seq; /* of GET_EVENT; 0: it is in the queue */
	uint32_t index;	    /* 0: of no connection */
	uint64_t order;
	struct ctl_cm_event body;
};

_Static_assert(sizeof(struct cm_record_id) <= CM_STORE_RECORD_BYTES &&
		       sizeof(struct cm_record_event) <= CM_STORE_RECORD_BYTES,
	       "a record has room");

void cm_save_id(struct cm_id *id);

/* given_seq: 0, or of the request that fetches it. */
void cm_save_event(struct cm_event *e, uint32_t given_seq);

#endif
