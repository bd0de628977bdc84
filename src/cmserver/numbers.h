/*
 * Numbers - gives out numbers that cannot be foreseen, and finds what has them.
 *
 * A number is never 0, nor one that is in use, and comes again after 2^32 others, however short the
 * time in which the first one was used: the n-th number is n, encrypted by a key of this table's
 * own (a permutation of all 32-bit numbers).
 *
 * Why not to be foreseen: other hosts name a connection by its number. Who knows which it is can
 * forge the packets that end it, or that establish it, without seeing any of its traffic. Numbers
 * in order would tell each peer those of all others, and so would numbers in order behind a fixed
 * secret: any one of them gives the next away.
 *
 * Why not just random ones: a number must not come back while the other end, or a late packet,
 * remembers who had it, and of 10,000 remembered at random two are alike sooner than one might
 * think.
 *
 * Another daemon on this host has another key. What returns from an earlier one keeps its number.
 *
 * Owner: the daemon's one thread.
 */
#ifndef CMSERVER_NUMBERS_H
#define CMSERVER_NUMBERS_H

#include <stdint.h>

#include "event/secret.h"
#include "event/table.h"

/* Embedded in what has a number. */
struct numbered {
	struct table_entry entry;
	uint32_t number;
};

struct numbers {
	struct table table;
	struct secret secret;
	uint32_t given; /* how many so far */
};

/* 0 or -errno. */
int numbers_init(struct numbers *n);

/* Everything is out of it. */
void numbers_fini(struct numbers *n);

void numbers_add(struct numbers *n, struct numbered *entry);

/* What had this number with an earlier daemon. 0; -EEXIST: something else has it; -EINVAL: 0 is none. */
int numbers_return(struct numbers *n, struct numbered *entry, uint32_t number);

void numbers_remove(struct numbers *n, struct numbered *entry);

/* NULL: nothing has it. */
struct numbered *numbers_find(const struct numbers *n, uint32_t number);

#endif
