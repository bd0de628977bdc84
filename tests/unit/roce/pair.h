/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pair - for most tests of the transport: a rig, two QPs, and a region at each end.
 *
 * pair_regions, pair_connect; then those of rig.h. pair_teardown destroys all, and checks that no
 * timer is left.
 */
#ifndef TESTS_UNIT_ROCE_PAIR_H
#define TESTS_UNIT_ROCE_PAIR_H

#include "rig.h"

#define PAIR_ALIGNED __attribute__((aligned(4096)))

extern struct rig rig;
extern struct qp *a, *b;	      /* requests go from a to b */
extern struct mr *here_mr, *there_mr; /* a's and b's */

/* `here` gets a pattern that does not repeat itself for long, `there` bytes of 0xee. */
void pair_regions(void *here, void *there, size_t bytes, uint32_t access);
void pair_connect(enum ibv_qp_type type, const struct rig_options *options);
/* For cmocka. No QP has left a timer. */
int pair_teardown(void **state);

#define PAIR_IMM 0x12345678u

/* From this offset in a's region, for the same in that of b's; FETCH_ADD adds 1. */
void pair_post_at(enum ibv_wr_opcode opcode, uint32_t offset, uint32_t bytes, uint64_t wr_id,
		  unsigned flags);
/* From the beginning of the one, for that of the other. */
void pair_post(enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id);

/* The next completion, which has to be this. */
struct ibv_wc pair_expect(uint64_t wr_id, enum ibv_wc_status status);

#endif
