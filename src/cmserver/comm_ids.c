/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmserver/comm_ids.h"

#include <errno.h>

#include "base/check.h"

#define ROUNDS 8 /* four are enough if the hash is good (Luby and Rackoff) */

int comm_ids_init(struct comm_ids *n)
{
	int rc = table_init(&n->table);

	n->given = 0;
	if (!rc)
		rc = secret_init(&n->secret);
	return rc;
}

void comm_ids_fini(struct comm_ids *n)
{
	table_fini(&n->table);
}

/* A Feistel network: with any hash, different inputs have different results. */
static uint32_t encrypt(const struct comm_ids *n, uint32_t plain)
{
	uint16_t left = (uint16_t)(plain >> 16), right = (uint16_t)plain;

	for (uint16_t round = 0; round < ROUNDS; round++) {
		uint16_t input[2] = { round, right };
		uint16_t next = left ^ (uint16_t)secret_hash(&n->secret, input, sizeof(input));

		left = right;
		right = next;
	}
	return (uint32_t)left << 16 | right;
}

/* With a secret: a process that returns names its values, and so may choose them. */
static uint64_t hash(const struct comm_ids *n, uint32_t value)
{
	return secret_hash(&n->secret, &value, sizeof(value));
}

void comm_ids_add(struct comm_ids *n, struct comm_id *entry)
{
	do
		entry->value = encrypt(n, n->given++);
	while (!entry->value || comm_ids_find(n, entry->value));
	table_add(&n->table, &entry->entry, hash(n, entry->value));
}

int comm_ids_return(struct comm_ids *n, struct comm_id *entry, uint32_t value)
{
	if (!value)
		return -EINVAL;
	if (comm_ids_find(n, value))
		return -EEXIST;
	entry->value = value;
	table_add(&n->table, &entry->entry, hash(n, value));
	return 0;
}

void comm_ids_remove(struct comm_ids *n, struct comm_id *entry)
{
	table_remove(&n->table, &entry->entry);
}

struct comm_id *comm_ids_find(const struct comm_ids *n, uint32_t value)
{
	struct list *bucket = table_bucket(&n->table, hash(n, value)), *m;

	list_for_each(m, bucket) {
		struct comm_id *entry = container_of(m, struct comm_id, entry.in_bucket);

		if (entry->value == value)
			return entry;
	}
	return NULL;
}

#ifdef VERBATIM_CHECK
/*
 * Communication IDs:
 * - those that are in use are in a table (table_check);
 * - none is 0;
 * - each is found by its value: its hash is that of the value, and no other has the same.
 */
void comm_ids_check(const struct comm_ids *n)
{
	const struct list *m;

	table_check(&n->table);
	for (size_t i = 0; i < n->table.bucket_count; i++)
		list_for_each(m, &n->table.buckets[i]) {
			const struct comm_id *entry =
				container_of(m, struct comm_id, entry.in_bucket);

			INVARIANT(entry->value && comm_ids_find(n, entry->value) == entry,
				  "value 0x%08x, hash 0x%llx", entry->value,
				  (unsigned long long)entry->entry.hash);
		}
}
#endif
