/*
 * Table - finds members by their hash; grows with their number.
 *
 * A chain stays short however many members there are, provided that nobody chooses which of them
 * have hashes alike: what others choose is hashed with a secret (event/secret.h) first.
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
	struct list in_bucket; /* linked to itself: in no table */
	uint64_t hash;
};

struct table {
	struct list *buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
};

/* 0 or -ENOMEM. */
int table_init(struct table *t);

/* Members are no longer in it, and their own. */
void table_fini(struct table *t);

/* Before it is added, or asked whether it is. */
void table_entry_init(struct table_entry *e);

/* It has to be in no table. Out of memory chains get longer, and nothing else happens. */
void table_add(struct table *t, struct table_entry *e, uint64_t hash);

/* Harmless if it is in no table. */
void table_remove(struct table *t, struct table_entry *e);

/* Where the members with this hash are, among others. */
struct list *table_bucket(const struct table *t, uint64_t hash);

static inline bool table_holds(const struct table_entry *e)
{
	return !list_empty(&e->in_bucket);
}

#endif
