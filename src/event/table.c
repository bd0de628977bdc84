/* SPDX-License-Identifier: BSD-2-Clause */
#include "event/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"

#define BUCKETS_FIRST 256

static struct list *make_buckets(size_t count)
{
	struct list *buckets = malloc(count * sizeof(*buckets));

	for (size_t i = 0; buckets && i < count; i++)
		list_init(&buckets[i]);
	return buckets;
}

int table_init(struct table *t)
{
	t->buckets = make_buckets(BUCKETS_FIRST);
	t->bucket_count = t->buckets ? BUCKETS_FIRST : 0;
	t->count = 0;
	return t->buckets ? 0 : -ENOMEM;
}

void table_fini(struct table *t)
{
	free(t->buckets);
}

void table_entry_init(struct table_entry *e)
{
	list_init(&e->in_bucket);
}

struct list *table_bucket(const struct table *t, uint64_t hash)
{
	return &t->buckets[hash & (t->bucket_count - 1)];
}

static void grow(struct table *t)
{
	struct table larger = { .bucket_count = 2 * t->bucket_count, .count = t->count };
	struct list *m, *after;

	larger.buckets = make_buckets(larger.bucket_count);
	if (!larger.buckets)
		return;
	for (size_t i = 0; i < t->bucket_count; i++) {
		list_for_each_safe(m, after, &t->buckets[i]) {
			struct table_entry *e = container_of(m, struct table_entry, in_bucket);

			list_del(&e->in_bucket);
			list_add_tail(table_bucket(&larger, e->hash), &e->in_bucket);
		}
	}
	free(t->buckets);
	*t = larger;
}

#ifdef VERBATIM_CHECK
/*
 * Changes of a table between two checks, on average. A check looks at all members and buckets, so
 * it costs a change a look at some, however many there are.
 */
#define BETWEEN_CHECKS(buckets) (256 + (uint32_t)(buckets) / 4)

/*
 * A hash table:
 * - it has a power of two of buckets, each of which is a list;
 * - a member is in the bucket of its hash;
 * - there are as many members as were counted.
 */
void table_check(const struct table *t)
{
	size_t members = 0, mask = t->bucket_count - 1;
	const struct list *m;

	INVARIANT(t->bucket_count && !(t->bucket_count & mask), "%zu buckets", t->bucket_count);
	for (size_t i = 0; i < t->bucket_count; i++) {
		members += list_check(&t->buckets[i], t->count);
		list_for_each(m, &t->buckets[i]) {
			uint64_t hash = container_of(m, struct table_entry, in_bucket)->hash;

			INVARIANT((hash & mask) == i, "hash 0x%llx in bucket %zu of %zu",
				  (unsigned long long)hash, i, t->bucket_count);
		}
	}
	INVARIANT(members == t->count, "%zu members, counted %zu", members, t->count);
}

static void check_now_and_then(const struct table *t)
{
	if (check_sometimes(BETWEEN_CHECKS(t->bucket_count)))
		table_check(t);
}
#endif

void table_add(struct table *t, struct table_entry *e, uint64_t hash)
{
	if (t->count >= t->bucket_count)
		grow(t);
	e->hash = hash;
	list_add_tail(table_bucket(t, hash), &e->in_bucket);
	t->count++;
	CHECK(check_now_and_then(t));
}

void table_remove(struct table *t, struct table_entry *e)
{
	if (!table_holds(e))
		return;
	list_del(&e->in_bucket);
	t->count--;
	CHECK(check_now_and_then(t));
}
