/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss - drops a share of the sent packets, for tests. Costs one branch a burst while it is off.
 *
 * VERBATIM_TEST_LOSS=RATE[,SEED]: RATE from 0 to 1, SEED a number (1). The same seed and number of
 * packets give the same losses. If the value is malformed, a message goes to standard error, and no
 * packet is dropped.
 *
 * Any thread, no locks.
 */
#ifndef UDP_LOSS_H
#define UDP_LOSS_H

#include <stdbool.h>
#include <stdint.h>

/* Written by loss_init, the first time. */
extern bool loss_is_on;

/* Reads the environment, the first time. */
void loss_init(void);
uint64_t loss_draw(unsigned count);

/* Of the next `count` packets, 64 at most: bit i is set if packet i is lost. */
static inline uint64_t loss_choose(unsigned count)
{
	return __builtin_expect(loss_is_on, false) ? loss_draw(count) : 0;
}

#endif
