/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Communication IDs - values that cannot be foreseen, and a table of the objects that have them.
 *
 * A value is never 0 and never in use twice. It is not given again before 2^32 others: the n-th
 * value is n, encrypted with a key of this table (a permutation of all 32-bit values).
 *
 * Why they cannot be foreseen: other hosts name a connection by its communication ID. A host that
 * knew another's could forge the packets that end or establish a connection without seeing its
 * traffic. Values in order would tell each peer those of all others. So would values in order from
 * a secret first one on, since each gives away the next.
 *
 * Why they are not just random: a value must not come back while the other end, or a late packet,
 * still refers to its last owner. Among 10,000 random values two are equal with a probability of 1
 * %.
 *
 * The next daemon on this host has another key. A process that returns to it keeps its values.
 *
 * Channels and identifiers, which only their process knows, have values of tables of their own.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_COMM_IDS_H
#define CMSERVER_COMM_IDS_H

#include <stdint.h>

#include "event/secret.h"
#include "event/table.h"

/* Embedded in the object that has the ID. */
struct comm_id {
	struct table_entry entry;
	uint32_t value;
};

struct comm_ids {
	struct table table;
	struct secret secret;
	uint32_t given; /* how many values so far */
};

/* 0 or -errno. */
int comm_ids_init(struct comm_ids *n);

/* The table has to be empty. */
void comm_ids_fini(struct comm_ids *n);

/* Gives it the next value. */
void comm_ids_add(struct comm_ids *n, struct comm_id *entry);

/*
 * Adds an object that had this value with an earlier daemon. 0; -EEXIST: the value is in use;
 * -EINVAL: it is 0.
 */
int comm_ids_return(struct comm_ids *n, struct comm_id *entry, uint32_t value);

void comm_ids_remove(struct comm_ids *n, struct comm_id *entry);

/* NULL: the value is not in use. */
struct comm_id *comm_ids_find(const struct comm_ids *n, uint32_t value);

/* base/check.h: all of them. */
void comm_ids_check(const struct comm_ids *n);

#endif
