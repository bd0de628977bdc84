/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM store - records of what verbatimd has for one process, in a memfd that the process holds.
 *
 * In:  a memfd that the process made; records.
 * Out: the records, to the next daemon. See docs/design/cm.md: the end of verbatimd.
 *
 * Crash consistency: a record is written by one pwrite(2), within one page. The kernel copies a
 * page at a time, and looks for fatal signals between pages. So a record is either the old one or
 * the new one, whenever verbatimd is killed.
 *
 * An event and the state of the connection that raised it are two records. The event, with its
 * index, is written first, then the state, with the number of events raised so far. An event whose
 * index is higher than that number belongs to a step that was not completed. Such an event is
 * dropped: the connection is as it was before the step, and the message that led to it is repeated.
 *
 * When the program fetches an event, its record stays, with the seq of that request. It is dropped
 * at the next request, which shows that the reply has arrived.
 *
 * The process can write there, too, so verbatimd checks all that it reads. It never maps the memfd,
 * because the process could make accesses raise a signal.
 *
 * Owner: the daemon's one thread. pwrite to a memfd does not block. A write that fails is the loss
 * of the process alone.
 */
#ifndef CMSERVER_CM_STORE_H
#define CMSERVER_CM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ctl/protocol.h"
#include "ibcm/saved.h"

#define CM_STORE_RECORD_BYTES 1024
#define CM_STORE_RECORDS      (CTL_CM_STORE_BYTES / CM_STORE_RECORD_BYTES)
#define CM_STORE_FIRST	      4u /* the slots before are the header's page */

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
	uint32_t raised; /* number of complete events of connections */
	uint32_t backlog;
	uint32_t bind_flags;
	uint8_t is_bound, is_listening, had_connection, has_connection;
	struct ctl_cm_address local;

	/* The connection. */
	uint8_t is_local, is_ud;
	uint8_t is_unaccepted;	/* of the identifier, with a connection or without */
	uint32_t other_session; /* if is_local */
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

struct cm_store {
	int fd;	       /* -1: none */
	uint32_t next; /* first slot that was never written */
	uint32_t *free;
	uint32_t free_count, free_room;
};

/* A store that is not open. */
#define CM_STORE_NONE ((struct cm_store){ .fd = -1 })

/*
 * Takes over fd on success. It has to be a memfd of CTL_CM_STORE_BYTES that cannot shrink or grow.
 * 0; -EINVAL: it is not; -ESTALE: the process has ended (cm_store_end), or the store is of another
 * version.
 */
int cm_store_open(struct cm_store *s, int fd);

/* The records stay, for the next daemon. */
void cm_store_close(struct cm_store *s, uid_t uid);

/* The process ended: the store is of no use any more. */
void cm_store_end(struct cm_store *s);

/*
 * Writes a record of at most CM_STORE_RECORD_BYTES. *slot: its place; 0: takes a free one, and sets
 * it.
 */
void cm_store_put(struct cm_store *s, uint32_t *slot, const void *record, size_t bytes);

/* Makes the first word of the record 0. *slot becomes 0. */
void cm_store_drop(struct cm_store *s, uint32_t *slot);

/*
 * Calls `keep` for every record whose first word is not 0, and drops those for which it returns
 * false. To be called before cm_store_put.
 */
void cm_store_read(struct cm_store *s, bool (*keep)(void *arg, uint32_t slot, const void *record),
		   void *arg);

#endif
