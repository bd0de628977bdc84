/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM store - records of what verbatimd has for one process, in a memfd that the process holds.
 *
 * In:  a memfd that the process made; records.
 * Out: the records, to the next daemon.
 *
 * What a process has in verbatimd is to end with the process, not with verbatimd. So verbatimd
 * writes each change into a memfd of the process, which the process gives to the next daemon.
 *
 * Crash consistency: a record is written by one pwrite(2), within one page. The kernel copies a
 * page at a time, and looks for fatal signals between pages. So a record is either the old one or
 * the new one, whenever verbatimd is killed. How two records stay consistent is in
 * cmserver/cm_save.h.
 *
 * The process can write there, too, so all that is read is checked. The memfd is never mapped: the
 * process could make that raise a signal.
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

#define CM_STORE_RECORD_BYTES 1024
#define CM_STORE_RECORDS      (CTL_CM_STORE_BYTES / CM_STORE_RECORD_BYTES)
#define CM_STORE_FIRST	      4u /* those before are the header's page */

struct cm_store {
	int fd;	       /* -1: none */
	uint32_t next; /* from here on nothing was written */
	uint32_t *free;
	uint32_t free_count, free_room;
};

/* A store that is not open. */
#define CM_STORE_NONE ((struct cm_store){ .fd = -1 })

/*
 * Takes over fd on success. It has to be a memfd of CTL_CM_STORE_BYTES that cannot shrink or grow.
 * 0; -EINVAL: it is none; -ESTALE: the process has ended (cm_store_end), or the store is of another
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
