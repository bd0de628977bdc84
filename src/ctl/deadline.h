/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadline - a point on the monotonic clock, in nanoseconds, that a wait must not pass.
 */
#ifndef CTL_DEADLINE_H
#define CTL_DEADLINE_H

#include <limits.h>
#include <stdint.h>

#include "base/clock.h"

static inline int64_t deadline_now_ns(void)
{
	return (int64_t)clock_now_ns();
}

static inline int64_t deadline_in_ms(int64_t ms)
{
	return deadline_now_ns() + ms * 1000000;
}

/* What is left until the deadline, in ms for poll(2): rounded up, never negative. */
static inline int deadline_left_ms(int64_t deadline_ns)
{
	int64_t left_ns = deadline_ns - deadline_now_ns();

	if (left_ns <= 0)
		return 0;
	return left_ns / 1000000 < INT_MAX ? (int)((left_ns + 999999) / 1000000) : INT_MAX;
}

#endif
