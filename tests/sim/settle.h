/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settle - what the oracle asks when all is over.
 *
 * In:  a plan whose ends are in ERR, all completions of which were taken.
 * Out: an end of the process with sim_fail, if something is left or is not as it should be.
 */
#ifndef TESTS_SIM_SETTLE_H
#define TESTS_SIM_SETTLE_H

#include "plan.h"

void settle(struct plan *plan);

#endif
