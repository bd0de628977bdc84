/*
 * CM store - the records of what verbatimd has for one process, in memory that the process holds.
 *
 * In:  a memfd that the process made; records.
 * Out: the records, to the next daemon.
 *
 * What one process has in verbatimd ends with the process, not with verbatimd: so it is written into a
 * memfd of the process, at each change, and the process hands that to the next daemon.
 *
 * Crash consistency: a record is written by one pwrite(2), within one page. The kernel copies a page's
 * worth at a time and looks for fatal signals between pages: so a record is either the old one or the
 * new one, whenever verbatimd is killed. What belongs together in several records says so itself
 * (cmserver/cm_save.h).
 *
 * The process can write there, too: whatever is read is checked. It is never mapped, so that nothing the
 * process does with it raises a signal here.
 *
 * Owner: the daemon's one thread. pwrite to a memfd does not block. Failures are the process's own loss.
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

/* What is not open yet, or not any more. */
#define CM_STORE_NONE ((struct cm_store){ .fd = -1 })

/*
 * Takes over fd on success. It has to be a memfd of CTL_CM_STORE_BYTES that cannot shrink or grow. 0;
 * -EINVAL: it is none; -ESTALE: the process ended, as far as a daemon knew.
 */
int cm_store_open(struct cm_store *s, int fd);

/* The records stay, for the next daemon. */
void cm_store_close(struct cm_store *s, uid_t uid);

/* The process ended: nobody is to come back with it. */
void cm_store_end(struct cm_store *s);

/* Writes a record of at most CM_STORE_RECORD_BYTES. *slot: where; 0: a new place, which is set. */
void cm_store_put(struct cm_store *s, uint32_t *slot, const void *record, size_t bytes);

/* Makes the first word of the record 0. *slot becomes 0. */
void cm_store_drop(struct cm_store *s, uint32_t *slot);

/*
 * Calls `each` for every record whose first word is not 0; what it does not keep is dropped. Before
 * anything is put.
 */
void cm_store_read(struct cm_store *s, bool (*keep)(void *arg, uint32_t slot, const void *record),
		   void *arg);

#endif
