/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp/loss.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t threshold; /* of 2^32 */
static uint64_t seed;
static _Atomic uint64_t packets;

bool loss_is_on;

static void read_environment(void)
{
	const char *text = secure_getenv("VERBATIM_TEST_LOSS");
	char *end;
	double rate;

	if (!text || !*text)
		return;
	rate = strtod(text, &end);
	seed = 1;
	if (*end == ',' && end[1])
		seed = strtoull(end + 1, &end, 0);
	if (*end || !(rate >= 0 && rate <= 1)) {
		fprintf(stderr, "verbatim: VERBATIM_TEST_LOSS=%s is not RATE[,SEED]\n", text);
		return;
	}
	threshold = (uint64_t)(rate * 4294967296.0);
	loss_is_on = threshold != 0;
}

void loss_init(void)
{
	pthread_once(&once, read_environment);
}

/* The mixing function of splitmix64. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t loss_draw(unsigned count)
{
	uint64_t n = atomic_fetch_add_explicit(&packets, count, memory_order_relaxed), lost = 0;

	for (unsigned i = 0; i < count; i++)
		lost |= (uint64_t)((mix(mix(seed) + n + i) >> 32) < threshold) << i;
	return lost;
}
