/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settle - the oracle's checks at the end of a simulation.
 *
 * In:  a plan whose ends are in ERR, with all completions taken.
 * Out: sim_fail, if a request has not ended, or memory or events are not as they should be.
 */
#ifndef TESTS_SIM_SETTLE_H
#define TESTS_SIM_SETTLE_H

#include "plan.h"

void settle(struct plan *plan);

#endif
