/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plan - the simulation of one seed: ends, their connections, and all requests posted to them.
 *
 * Each message has places in memory of its own, so that the oracle knows the contents of memory at
 * any time. A plan has the requests and their outcomes; traffic.h decides when they are posted.
 */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "net.h"
#include "base/compat.h"
#include "base/psn.h"
#include "world.h"

#define PLAN_ENDS     8
#define PLAN_OPS      32
#define PLAN_RECEIVES 96
#define PLAN_PIECES   4
#define PLAN_QKEY     0x1234
#define PLAN_GRH      40
#define PLAN_VERSIONS 2048 /* words */
#define PLAN_POOL     (PLAN_ENDS * PLAN_OPS + PLAN_ENDS)
#define PLAN_POOL_WR  48
#define POOL_BYTES    8192 /* that a receive of the pool takes */

/* Bytes in several places of the memory, which count as one after the other. */
struct places {
	unsigned count;
	uint32_t at[PLAN_PIECES], bytes[PLAN_PIECES];
};

enum op_state { OP_PLANNED, OP_POSTED, OP_DONE, OP_FAILED };

struct op {
	enum ibv_wr_opcode opcode;
	unsigned flags; /* enum ibv_send_flags */
	enum op_state state;
	uint32_t length;
	uint32_t imm;
	uint64_t pattern; /* the payload; for a READ the expected data */
	struct places local;
	uint32_t lkey;
	uint32_t remote, rkey;
	uint64_t compare_add, swap;
	uint64_t before; /* atomics: the expected original value; not known for the shared word */
	bool shared;
	bool versioned;			/* READ of the peer's versions */
	bool keeps_target, keeps_local; /* another op reads them: not overwritten */
	int receive; /* RC: the peer's receive that it consumes; -1: none, or of the pool */
	bool received, refused;
	struct mw *mw; /* SEND_WITH_INV */
	enum ibv_wc_status expected;
};

struct receive_plan {
	struct places places;
	uint32_t bytes;
	uint32_t lkey;
	enum ibv_wc_status expected;
	bool posted, done;
};

/* What a READ of versions has brought: the last word of a packet. */
struct version_read {
	psn_t psn;
	uint32_t version;
};

/* A failure at an end, beside those of the network. */
enum mishap {
	MISHAP_NONE,
	MISHAP_BAD_RKEY,
	MISHAP_OTHER_PD,
	MISHAP_RANGE,
	MISHAP_NO_WRITE,
	MISHAP_NO_READ,
	MISHAP_UNALIGNED,
	MISHAP_RECEIVE_SHORT,
	MISHAP_RECEIVE_LKEY,
	MISHAP_LOCAL_LKEY,
	MISHAP_READ_LKEY,     /* the L_Key for the data read */
	MISHAP_NO_RECEIVE,    /* and rnr_retry is limited */
	MISHAP_SELF_TO_ERROR, /* the program moves it to ERR, at any time */
	MISHAP_PEER_TO_ERROR, /* or the other end */
	MISHAPS,
};

struct end {
	unsigned number; /* and its host */
	struct end *peer;
	struct qp *qp;
	enum ibv_qp_type type; /* of XRC, too, it is RC; qp->type tells */
	uint32_t srqn;	       /* XRC: the SRQ of its requests */
	struct ibv_qp_cap cap;
	bool sig_all;
	struct ibv_ah *ah; /* UD */
	enum mishap mishap;
	unsigned mishap_op; /* the op that fails */
	uint64_t mishap_ns; /* ..._TO_ERROR: when */
	bool mishap_done;
	bool disturbed;	   /* its connection may fail at any time */
	uint64_t pause_ns; /* when the program moves it to SQD */
	uint64_t rest_ns;  /* how long after it is drained the program moves it back */
	uint64_t resume_ns;
	uint32_t drained_head; /* of the send queue, when it was drained */
	uint32_t events;       /* that it raised: 1 << enum ibv_event_type */
	uint64_t post_gap_ns, receive_gap_ns;

	struct op ops[PLAN_OPS];
	unsigned op_count, next_post, next_done;
	bool failed; /* a request failed: all later ones are flushed */
	uint64_t post_ns;

	struct receive_plan receives[PLAN_RECEIVES];
	unsigned receive_count, next_receive_post, next_receive_done;
	bool flushed; /* a receive was */
	uint64_t receive_ns;
	bool pooled;	   /* its receives are the plan's */
	unsigned withheld; /* this receive and later ones are never posted */

	uint32_t word;			    /* atomics of this end alone, in the peer's memory */
	uint64_t word_values[PLAN_OPS + 1]; /* what it may hold after each of them */
	unsigned word_steps, word_done;
	/*
	 * Its READs of versions: words in the peer's memory that all hold one number, which the
	 * peer's program raises at any time. What the READs of a QP bring never falls from one word
	 * to the next, as they are executed in order.
	 */
	uint32_t versions; /* where they are */
	uint32_t version;  /* the number */
	struct version_read last_read;
	bool has_sent, was_refused; /* an RNR NAK was sent to it */
	psn_t sent_psn;		    /* the highest of its requests */
	unsigned drops;		    /* packets lost, in both directions, since an answer came */
};

struct plan {
	struct net_weather weather;
	uint32_t mtu; /* enum ibv_mtu */
	unsigned end_count;
	struct end ends[PLAN_ENDS];
	struct srq *srq; /* of the pooled ends; or NULL */
	bool xrc;	 /* it is one of XRC: those are the receiving ends of XRC pairs */
	struct receive_plan pool[PLAN_POOL];
	unsigned pool_count, next_pool_post;
	uint64_t pool_ns, pool_gap_ns;
	uint32_t shared_word; /* that all ends add 1 to */
	unsigned shared_adds;
	bool reorders; /* or duplicates */
	bool clean;    /* the network loses, delays and changes no packet */
};

/* Makes the plan, creates and connects the QPs, and fills the payload's memory. */
void plan_make(struct plan *plan, uint64_t seed);

/* Programs raise the versions in their memory. */
void plan_raise_versions(struct plan *plan);

/* Destroys the QPs and frees the plan. */
void plan_drop(struct plan *plan);

static inline uint32_t plan_mtu(const struct plan *plan)
{
	return 128u << plan->mtu; /* in bytes */
}

static inline bool op_is_atomic(const struct op *op)
{
	return op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Consumes a receive of the peer. */
static inline bool op_is_received(const struct op *op)
{
	return op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM ||
	       op->opcode == IBV_WR_SEND_WITH_INV || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline bool op_is_write(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_WRITE || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       op->opcode == IBV_WR_ATOMIC_WRITE;
}

/* Its length is that of its range; it has no payload. */
static inline bool op_is_flush(const struct op *op)
{
	return (int)op->opcode == COMPAT_WR_FLUSH;
}

/* A response completes it. */
static inline bool op_takes_response(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_READ || op_is_atomic(op) || op_is_flush(op) ||
	       op->opcode == IBV_WR_ATOMIC_WRITE;
}

/* Its payload goes into a receive. */
static inline bool op_is_send(const struct op *op)
{
	return op_is_received(op) && !op_is_write(op);
}

#endif
