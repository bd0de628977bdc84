/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Op - one request of a plan: drawn by chance, with its places in memory.
 */
#ifndef TESTS_SIM_OP_H
#define TESTS_SIM_OP_H

#include "plan.h"

/* Places for `bytes`, in `most` pieces at most. */
struct places op_take_places(struct random *random, uint32_t bytes, unsigned most);

/* From now on the first `bytes` of them should be as they are. */
void places_trust(const struct places *places, uint32_t bytes);

/* A length up to `most`, for a path MTU in bytes. */
uint32_t op_choose_length(struct random *random, uint32_t mtu, uint32_t most);

/* The receive that an op of RC consumes: the next one of the peer. */
void op_make_receive(struct end *end, struct op *op, struct random *random);

/* Request `number` of the end; *budget is how many bytes it may still send. */
void op_make(struct plan *plan, struct end *end, unsigned number, uint32_t *budget,
	     struct random *random);

#endif
