/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic - posts what a plan holds, in the course of virtual time.
 */
#ifndef TESTS_SIM_TRAFFIC_H
#define TESTS_SIM_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

/* When there is something to post next; NET_NEVER. */
uint64_t traffic_next_ns(const struct plan *plan);

/* Posts what is due. */
void traffic_run(struct plan *plan);

/* Everything was posted, and each request has ended. */
bool traffic_is_done(const struct plan *plan);

#endif
