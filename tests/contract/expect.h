/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expect - whole steps of a test: connect two ends, post, and expect an outcome.
 *
 * All fail the test, with the place of the call, if the end does something else.
 */
#ifndef CONTRACT_EXPECT_H
#define CONTRACT_EXPECT_H

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "side.h"

#define WAIT_MS	 ((unsigned int)(20000 * patience())) /* for an expected completion or event */
#define QUIET_MS 30				      /* for one that must not come */

/* The objects of both ends, QPs in RESET; and the same with all QPs connected, in RTS. */
void pair_make(struct pair *pair, const struct options *options);
void pair_connect(struct pair *pair, const struct options *options);

/* Moves QP number `qp` of `end`, towards the QP of the same number at `other`. */
int end_move(struct end *end, struct end *other, int qp, enum ibv_qp_state to);
void end_ready(struct end *end, struct end *other, int qp); /* RESET to RTS */
int end_modify(struct end *end, int qp, struct ibv_qp_attr attr, int mask);
enum ibv_qp_state end_state(struct end *end, int qp);

/* Requests. Each is signalled unless `.flags` says otherwise. */
#define REQUEST(...)	    ((struct request){ .flags = IBV_SEND_SIGNALED, ##__VA_ARGS__ })
#define SEND(...)	    REQUEST(.opcode = IBV_WR_SEND, ##__VA_ARGS__)
#define TO(end, at)	    .remote = (end)->addr + (at), .rkey = (end)->rkey
#define WRITE(to, at, ...)  REQUEST(.opcode = IBV_WR_RDMA_WRITE, TO(to, at), ##__VA_ARGS__)
#define READ(from, at, ...) REQUEST(.opcode = IBV_WR_RDMA_READ, TO(from, at), ##__VA_ARGS__)
#define WRITE_IMM(to, at, ...)                                                                     \
	REQUEST(.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, TO(to, at), ##__VA_ARGS__)
#define FETCH_ADD(to, at, ...)                                                                     \
	REQUEST(.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8, TO(to, at), ##__VA_ARGS__)
#define CMP_SWP(to, at, ...)                                                                       \
	REQUEST(.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .length = 8, TO(to, at), ##__VA_ARGS__)
#define DATAGRAM(to, ...)                                                                          \
	REQUEST(.opcode = IBV_WR_SEND, .qpn = (to)->qpn[0], .qkey = QKEY, ##__VA_ARGS__)
#define RECEIVE(...) ((struct receive){ __VA_ARGS__ })

/* One request to a QP. try_*: the return value; post_*: must be accepted. */
int try_send(struct end *end, int qp, struct request request);
int try_receive(struct end *end, int qp, struct receive receive);
void post_send_at(const char *file, int line, struct end *end, int qp, struct request request);
void post_receive_at(const char *file, int line, struct end *end, int qp, struct receive receive);
#define post_send(end, qp, ...)	   post_send_at(__FILE__, __LINE__, end, qp, __VA_ARGS__)
#define post_receive(end, qp, ...) post_receive_at(__FILE__, __LINE__, end, qp, __VA_ARGS__)
/* A chain; *bad as op_post_send.bad. */
int post_chain(struct end *end, int qp, const struct request *request, int count, int *bad);

/* The next completion has this wr_id and status. */
struct ibv_wc expect_at(const char *file, int line, struct end *end, enum which which,
			uint64_t wr_id, enum ibv_wc_status status);
#define expect(end, which, wr_id, status) expect_at(__FILE__, __LINE__, end, which, wr_id, status)
/* No completion comes. */
void expect_none_at(const char *file, int line, struct end *end, enum which which);
#define expect_none(end, which) expect_none_at(__FILE__, __LINE__, end, which)

void expect_state_at(const char *file, int line, struct end *end, int qp, enum ibv_qp_state state);
#define expect_state(end, qp, state) expect_state_at(__FILE__, __LINE__, end, qp, state)

/* The next async event has this type and, if it is a QP's, is of QP number `qp` (< 0: any). */
void expect_async_at(const char *file, int line, struct end *end, int qp, int type);
#define expect_async(end, qp, type) expect_async_at(__FILE__, __LINE__, end, qp, type)
void expect_no_async_at(const char *file, int line, struct end *end);
#define expect_no_async(end) expect_no_async_at(__FILE__, __LINE__, end)

/* The buffer: patterns by seed, 0 = canary. */
void fill(struct end *end, uint64_t offset, uint64_t length, uint32_t seed);
void expect_bytes_at(const char *file, int line, struct end *end, uint64_t offset, uint64_t length,
		     uint32_t seed);
#define expect_bytes(end, offset, length, seed)                                                    \
	expect_bytes_at(__FILE__, __LINE__, end, offset, length, seed)
uint64_t peek(struct end *end, uint64_t offset);
void poke(struct end *end, uint64_t offset, uint64_t value);

/* Regions beside the one over the buffer: must succeed. */
struct op_region add_region(struct end *end, struct op_region op);
void drop_region(struct end *end, int slot);

/* The connection still works in both directions: one SEND each way on QP number `qp`. */
void expect_working_at(const char *file, int line, struct pair *pair, int qp);
#define expect_working(pair, qp) expect_working_at(__FILE__, __LINE__, pair, qp)

#endif
