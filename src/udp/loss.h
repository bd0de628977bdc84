/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss - drops a share of the packets that are sent, for tests.
 *
 * VERBATIM_TEST_LOSS=RATE[,SEED]: RATE from 0 to 1, SEED a number (1). The same seed and number of
 * packets give the same losses. Anything that cannot be read as that is said on standard error, and
 * nothing is dropped.
 *
 * Any thread, no locks.
 */
#ifndef UDP_LOSS_H
#define UDP_LOSS_H

#include <stdbool.h>

/* Reads the environment, the first time. */
void loss_init(void);

/* Whether the next packet is lost. */
bool loss_strikes(void);

#endif
