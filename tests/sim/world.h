/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * World - shared by all simulations of a process: one adapter's objects, and memory with a shadow
 * of its expected contents.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "object/context.h"
#include "object/cq.h"
#include "object/mr.h"
#include "object/mw.h"
#include "object/pd.h"
#include "object/qp.h"
#include "object/qp_create.h"
#include "object/qp_table.h"
#include "object/srq.h"
#include "object/xrcd.h"
#include "random.h"

#define WORLD_SLOT	  5
#define WORLD_BYTES	  (16u << 20)
#define WORLD_CQE	  65536
#define WORLD_SMALL_BYTES 4096 /* of the memory's beginning, which no op uses: mr_small */

struct world {
	struct context *context;
	struct pd *pd, *other_pd;
	struct cq *send_cq, *recv_cq;
	struct xrcd *xrcd;
	char *memory, *shadow;
	uint32_t taken;		  /* bytes of it in use */
	struct mr *mr;		  /* all rights on all memory */
	struct mr *mr_unwritable; /* by peers */
	struct mr *mr_unreadable; /* by peers */
	struct mr *mr_small;
	struct mr *mr_other_pd;
};

extern struct world world;

/* Once per process. */
void world_create(void);

/* Frees all places, and resets memory and shadow. */
void world_clear(void);

/* A place for `bytes`, with a gap behind it that stays untouched; `align` is a power of two. */
uint32_t world_take(struct random *random, uint32_t bytes, uint32_t align);

/* Expects the pattern there; world_put also writes it. */
void world_expect(uint32_t at, uint32_t bytes, uint64_t pattern);
void world_put(uint32_t at, uint32_t bytes, uint64_t pattern);
void world_expect_word(uint32_t at, uint64_t word);

/* Expects the present contents from now on. */
void world_trust(uint32_t at, uint32_t bytes);

/* `bytes` of the pattern from its offset `from` on are there. */
bool world_holds(uint32_t at, uint32_t bytes, uint64_t pattern, uint32_t from);

/* Each byte is that of the shadow or of the pattern. Then the shadow takes it. */
bool world_holds_partly(uint32_t at, uint32_t bytes, uint64_t pattern);

/* The first byte that is not as it should be; -1: none. */
int64_t world_compare(void);

/* A QP of `type` in RESET whose path is the transport; with an SRQ, or NULL. */
struct qp *world_qp(enum ibv_qp_type type, const struct ibv_qp_cap *cap, bool sig_all,
		    struct srq *srq);

void world_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void world_to_error(struct qp *qp);

static inline uint64_t world_address(uint32_t at)
{
	return (uintptr_t)world.memory + at;
}

#endif
