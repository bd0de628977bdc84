/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pattern - bytes that depend on a seed and their place, over memory in pieces.
 *
 * In:  a seed per message, SGEs. Out: filled memory; the place of the first byte that differs.
 */
#ifndef VERIFY_PATTERN_H
#define VERIFY_PATTERN_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_BLANK 0xa5 /* the contents of memory that must not be written */

/* The seed of message number `index` of one size. */
uint64_t pattern_seed(uint64_t seed, size_t size, unsigned index);

void pattern_fill(const struct ibv_sge *pieces, int count, uint64_t seed);

/* -1 if all is equal, else the offset in the message of the first byte that is not. */
int64_t pattern_check(const struct ibv_sge *pieces, int count, uint64_t seed);

/* The same for memory that is blank. */
int64_t pattern_check_blank(const void *memory, size_t len);

#endif
