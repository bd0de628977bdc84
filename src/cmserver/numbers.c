#include "cmserver/numbers.h"

#include <errno.h>

#define ROUNDS 8 /* four are enough if the hash is good (Luby and Rackoff) */

int numbers_init(struct numbers *n)
{
	int rc = table_init(&n->table);

	n->given = 0;
	if (!rc)
		rc = secret_init(&n->secret);
	return rc;
}

void numbers_fini(struct numbers *n)
{
	table_fini(&n->table);
}

/* A Feistel network: whatever the hash is, different numbers stay different. */
static uint32_t encrypt(const struct numbers *n, uint32_t plain)
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

/* Whoever returns says which number it had, and so may choose. */
static uint64_t hash(const struct numbers *n, uint32_t number)
{
	return secret_hash(&n->secret, &number, sizeof(number));
}

void numbers_add(struct numbers *n, struct numbered *entry)
{
	do
		entry->number = encrypt(n, n->given++);
	while (!entry->number || numbers_find(n, entry->number));
	table_add(&n->table, &entry->entry, hash(n, entry->number));
}

int numbers_return(struct numbers *n, struct numbered *entry, uint32_t number)
{
	if (!number)
		return -EINVAL;
	if (numbers_find(n, number))
		return -EEXIST;
	entry->number = number;
	table_add(&n->table, &entry->entry, hash(n, number));
	return 0;
}

void numbers_remove(struct numbers *n, struct numbered *entry)
{
	table_remove(&n->table, &entry->entry);
}

struct numbered *numbers_find(const struct numbers *n, uint32_t number)
{
	struct list *bucket = table_bucket(&n->table, hash(n, number)), *m;

	list_for_each(m, bucket) {
		struct numbered *entry = container_of(m, struct numbered, entry.in_bucket);

		if (entry->number == number)
			return entry;
	}
	return NULL;
}
