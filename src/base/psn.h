/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PSN - packet sequence numbers, which count modulo 2^24 (IBA 9.7.2).
 *
 * A struct, so that `<` and `-`, which are wrong where the numbers wrap around, do not compile. A
 * PSN is before another one if it is at most 2^23 behind it.
 */
#ifndef BASE_PSN_H
#define BASE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu

typedef struct {
	uint32_t number; /* 24 bits */
} psn_t;

/* The lower 24 bits. */
static inline psn_t psn_of(uint32_t number)
{
	return (psn_t){ number & PSN_MASK };
}

static inline psn_t psn_add(psn_t psn, uint32_t n)
{
	return psn_of(psn.number + n);
}

static inline psn_t psn_sub(psn_t psn, uint32_t n)
{
	return psn_of(psn.number - n);
}

/* How far a is ahead of b: -2^23 .. 2^23 - 1. The sign is the order, as in rxe. */
static inline int32_t psn_diff(psn_t a, psn_t b)
{
	return (int32_t)((a.number - b.number) << 8) >> 8;
}

static inline bool psn_before(psn_t a, psn_t b)
{
	return psn_diff(a, b) < 0;
}

static inline bool psn_after(psn_t a, psn_t b)
{
	return psn_diff(a, b) > 0;
}

static inline bool psn_equal(psn_t a, psn_t b)
{
	return a.number == b.number;
}

#endif
