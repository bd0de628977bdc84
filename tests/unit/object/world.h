/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * World - a context with its arena, and QPs on a path that is the test.
 */
#ifndef TESTS_UNIT_OBJECT_WORLD_H
#define TESTS_UNIT_OBJECT_WORLD_H

#include "object/context.h"
#include "object/cq.h"
#include "object/pd.h"
#include "object/qp.h"
#include "object/qp_create.h"
#include "object/qp_table.h"

#define WORLD_SLOT 5

struct world {
	struct context *context;
	struct pd *pd;
	struct cq *cq;
	void *arena;
};

enum path_mode {
	PATH_HOLDS,   /* requests become WQE_ISSUED, and wait for path_finish */
	PATH_FINISHES /* requests succeed when they are posted */
};

extern enum path_mode path_mode;
extern int path_connect_error;
extern _Atomic int path_connects, path_issues, path_quiesces, path_destroys;
extern const struct qp_path fake_path;

/* For cmocka: a new world with a CQ of 64 entries in *state. */
int world_setup(void **state);
int world_teardown(void **state);

struct cq *world_cq(struct world *world, uint32_t cqe, struct channel *channel);
/* A QP in RESET, with 8 requests in each queue, 4 SGEs and 32 bytes inline. */
struct qp *world_qp(struct world *world, enum ibv_qp_type type);
struct qp *world_qp_of(struct world *world, struct ibv_qp_init_attr_ex *attr);
/* Moves it as far as RTS. */
void world_to(struct qp *qp, enum ibv_qp_state state);
int world_move(struct qp *qp, enum ibv_qp_state state);

/* Posts a SEND without SGEs, or a receive. */
int post_send(struct qp *qp, uint64_t wr_id, unsigned int flags);
int post_recv(struct qp *qp, uint64_t wr_id);

/* Finishes the request `behind` places after the head, and retires. */
void path_finish(struct qp *qp, uint32_t behind, enum ibv_wc_status status);
/* Takes a receive and completes it. */
bool path_receive(struct qp *qp);

/* Polls one completion; fails the test if there is none, or another one. */
void expect_wc(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status);
void expect_empty(struct cq *cq);
/* Fetches an async event without waiting; false: there is none. */
bool next_event(struct world *world, struct ibv_async_event *event);

#endif
