/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mishap - what goes wrong at an end of a plan: the request that fails, and with what status.
 */
#ifndef TESTS_SIM_MISHAP_H
#define TESTS_SIM_MISHAP_H

#include "plan.h"

/* Chooses one, behind what the end posts so far. */
void mishap_make(struct plan *plan, struct end *end, struct random *random);

#endif
