/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random - numbers that one seed decides (splitmix64), and patterns made of them.
 */
#ifndef TESTS_SIM_RANDOM_H
#define TESTS_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0 .. below - 1 */
static inline uint32_t random_below(struct random *random, uint32_t below)
{
	return (uint32_t)((random_next(random) >> 32) * below >> 32);
}

static inline uint32_t random_range(struct random *random, uint32_t low, uint32_t high)
{
	return low + random_below(random, high - low + 1);
}

/* True `permille` times of a thousand. */
static inline bool random_chance(struct random *random, uint32_t permille)
{
	return random_below(random, 1000) < permille;
}

/* The bytes that pattern number `pattern` stands for. */
static inline void pattern_fill(void *to, uint32_t bytes, uint64_t pattern)
{
	struct random random = { pattern * 0xd1342543de82ef95u };
	uint64_t word;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), to = (char *)to + sizeof(word)) {
		word = random_next(&random);
		memcpy(to, &word, sizeof(word));
	}
	word = random_next(&random);
	memcpy(to, &word, bytes);
}

#endif
