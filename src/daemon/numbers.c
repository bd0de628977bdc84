#include "daemon/numbers.h"

void numbers_init(struct numbers *n, uint32_t last)
{
	for (unsigned i = 0; i < NUMBERS_BUCKETS; i++)
		list_init(&n->buckets[i]);
	n->last = last;
}

void numbers_add(struct numbers *n, struct numbered *entry)
{
	do
		n->last++;
	while (!n->last || numbers_find(n, n->last));
	entry->number = n->last;
	list_append(&n->buckets[entry->number % NUMBERS_BUCKETS], &entry->in_bucket);
}

void numbers_remove(struct numbered *entry)
{
	list_remove(&entry->in_bucket);
}

struct numbered *numbers_find(const struct numbers *n, uint32_t number)
{
	const struct list *bucket = &n->buckets[number % NUMBERS_BUCKETS];

	for (struct list *m = bucket->next; m != bucket; m = m->next) {
		struct numbered *entry = container_of(m, struct numbered, in_bucket);

		if (entry->number == number)
			return entry;
	}
	return NULL;
}
