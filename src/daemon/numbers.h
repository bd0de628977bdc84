/*
 * Numbers - finds what clients name by a number.
 *
 * Numbers are given in order and come again after 2^32 of them, never 0 or one that is in use.
 *
 * Owner: the daemon's one thread.
 */
#ifndef DAEMON_NUMBERS_H
#define DAEMON_NUMBERS_H

#include <stdint.h>

#include "daemon/list.h"

#define NUMBERS_BUCKETS 4096

/* Embedded in what has a number. */
struct numbered {
	struct list in_bucket;
	uint32_t number;
};

struct numbers {
	struct list buckets[NUMBERS_BUCKETS];
	uint32_t last;
};

/* The first number given is the one behind `last`. */
void numbers_init(struct numbers *n, uint32_t last);
void numbers_add(struct numbers *n, struct numbered *entry);
void numbers_remove(struct numbered *entry);

/* NULL: nothing has it. */
struct numbered *numbers_find(const struct numbers *n, uint32_t number);

#endif
