/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table - a hash table that grows with the number of its members.
 *
 * A bucket stays short however many members there are, unless their hashes collide by intent: keys
 * that another process or host chooses are hashed with a secret (event/secret.h).
 *
 * Owner: the daemon's one thread.
 */
#ifndef EVENT_TABLE_H
#define EVENT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/* Embedded in a member. */
struct table_entry {
	struct list in_bucket; /* linked to itself while in no table */
	uint64_t hash;
};

struct table {
	struct list *buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
};

/* 0 or -ENOMEM. */
int table_init(struct table *t);

/* Frees the buckets, not the members. */
void table_fini(struct table *t);

/* To be called before any other function on the entry. */
void table_entry_init(struct table_entry *e);

/* The entry is in no table. Out of memory the table does not grow, and buckets get longer. */
void table_add(struct table *t, struct table_entry *e, uint64_t hash);

/* Does nothing if the entry is in no table. */
void table_remove(struct table *t, struct table_entry *e);

/* The bucket with all members of this hash, among others. */
struct list *table_bucket(const struct table *t, uint64_t hash);

/* base/check.h: all members. */
void table_check(const struct table *t);

static inline bool table_holds(const struct table_entry *e)
{
	return !list_empty(&e->in_bucket);
}

#endif
