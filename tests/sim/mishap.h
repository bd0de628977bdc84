/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mishap - a failure at an end of a plan: the request that fails, and its status.
 */
#ifndef TESTS_SIM_MISHAP_H
#define TESTS_SIM_MISHAP_H

#include "plan.h"

/* Chooses a mishap, after the end's ops so far. */
void mishap_make(struct plan *plan, struct end *end, struct random *random);

#endif
