/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Oracle - judges every completion, and every byte of the memory.
 */
#ifndef TESTS_SIM_ORACLE_H
#define TESTS_SIM_ORACLE_H

#include "plan.h"

/* Before anything is sent. The plan stays where it is. */
void oracle_start(struct plan *plan);

/* Takes all completions and judges them. */
void oracle_poll(void);

/*
 * The traffic has ended, and no packet is under way: moves the ends to ERR, and checks that all
 * requests have ended, and that the memory is as it should be.
 */
void oracle_finish(void);

#endif
