/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clock - the time in nanoseconds. Any thread; takes no lock.
 *
 * Deadlines and timestamps of completions are in clock_now_ns(), CLOCK_MONOTONIC.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Up to a tick (1 to 10 ms) behind clock_now_ns(), and cheaper: it reads no counter. */
static inline uint64_t clock_coarse_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* The time of day, since 1970. */
static inline uint64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

#endif
