/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Side - the verbs objects of one end, and the operations a test runs on them.
 *
 * A side has a buffer, one region over it, two CQs (sends, receives), up to QPS_MAX QPs and what
 * the options ask for beside. Functions named op_* are for end_run: their argument is plain data
 * that goes in and comes back. The wrappers of verbs on whole pairs are in expect.h.
 */
#ifndef CONTRACT_SIDE_H
#define CONTRACT_SIDE_H

#include "ends.h"

/* Overriding a default is what WITH() is for. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define SGES_MAX     8
#define REQUESTS_MAX 128
#define REGIONS_MAX  16
#define GRH_BYTES    40
#define QKEY	     0x11223344

#define ACCESS_ALL                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum which { SENDS, RECEIVES, WHICH };

struct options {
	enum ibv_qp_type type;
	int qps;
	size_t size; /* of the buffer */
	int access;  /* of the region over it */
	int qp_access;
	struct ibv_qp_cap cap;
	int cqe;
	bool sig_all;
	bool srq; /* receives come from an SRQ */
	bool srq_of_other_pd;
	bool one_cq;  /* both kinds of completion in the CQ of SENDS */
	bool channel; /* a completion channel for both CQs */
	enum ibv_mtu mtu;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
};

/*
 * The options of a pair: the defaults, and what the arguments override. A peer that waits for a
 * processor has seconds to answer (timeout 18: eight times 1.07 s); tests of time-outs set their
 * own.
 */
#define WITH(...)                                                                                  \
	(&(struct options){ .type = IBV_QPT_RC,                                                    \
			    .qps = 1,                                                              \
			    .size = 1 << 20,                                                       \
			    .access = ACCESS_ALL,                                                  \
			    .qp_access = ACCESS_ALL,                                               \
			    .cap = { .max_send_wr = 64,                                            \
				     .max_recv_wr = 64,                                            \
				     .max_send_sge = 4,                                            \
				     .max_recv_sge = 4,                                            \
				     .max_inline_data = 64 },                                      \
			    .cqe = 256,                                                            \
			    .mtu = IBV_MTU_1024,                                                   \
			    .timeout = 18,                                                         \
			    .retry_cnt = 7,                                                        \
			    .rnr_retry = 7,                                                        \
			    .min_rnr_timer = 1,                                                    \
			    .rd_atomic = 4,                                                        \
			    ##__VA_ARGS__ })

struct side {
	struct options options;
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[WHICH];
	struct ibv_srq *srq;
	struct ibv_qp *qp[QPS_MAX];
	struct ibv_mr *mr;
	struct ibv_mr *region[REGIONS_MAX];
	struct ibv_ah *ah; /* to the other end, UD */
	char *buf;
};

struct side *side_create(void);

/* The first device, or the one that VERBATIM_DEVICES left. Fails the test without one. */
struct ibv_context *side_open_device(void);

/* For tests within one process: a device with a PD and a CQ, no QP. */
struct side *side_open(const struct options *options);
struct ibv_qp *side_create_qp(struct side *side, const struct options *options);

/* Monotonic, for time limits. */
uint64_t now_ms(void);
void sleep_ms(unsigned int ms);
/*
 * To be called after each poll that found nothing. When `misses` in a row have taken some 0.4 ms it
 * sleeps, and yields before: other tests wait for the processor.
 */
void after_miss(unsigned int misses);

/*
 * Opens the device if `context` is NULL and makes all objects. QPs are in RESET. Fills the rest.
 */
struct op_make {
	struct options options;
	struct ibv_context *context;
	struct end end;
};
side_fn op_make;

/*
 * Moves QP `qp` as far as `to`, towards `qpn` at the other end. result: 0 or the errno of modify.
 * psn_offset: the responder's first PSN less the other end's.
 */
struct op_move {
	int qp;
	enum ibv_qp_state to;
	uint32_t qpn;
	union ibv_gid gid;
	uint16_t lid;
	int psn_offset;
	int result;
};
side_fn op_move;

struct op_modify {
	int qp;
	struct ibv_qp_attr attr;
	int mask;
	int result;
};
side_fn op_modify;

struct op_query {
	int qp;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
};
side_fn op_query;

/*
 * A send request. Without `num_sge` it names `length` bytes at `offset` in the buffer (length 0:
 * no SGE at all); else `sge` is used as it stands.
 */
struct request {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	__be32 imm; /* or the key to invalidate */
	uint32_t offset, length;
	uint64_t remote;
	uint32_t rkey;
	uint64_t compare_add, swap;
	uint32_t qpn, qkey; /* UD */
	uint32_t srqn;	    /* XRC */
	int num_sge;
	struct ibv_sge sge[SGES_MAX];
};

struct receive {
	uint64_t wr_id;
	uint32_t offset, length;
	int num_sge;
	struct ibv_sge sge[SGES_MAX];
};

/* bad: index of what bad_wr pointed to, -1 = left alone or NULL, -2 = something else. */
struct op_post_send {
	int qp, count, result, bad;
	uint64_t elapsed_us;
	struct request request[REQUESTS_MAX];
};
side_fn op_post_send;

/* qp -1: to the SRQ. */
struct op_post_recv {
	int qp, count, result, bad;
	struct receive receive[REQUESTS_MAX];
};
side_fn op_post_recv;

/* Waits for one completion. result: 1, 0 = none within the time, < 0 = error of ibv_poll_cq. */
struct op_poll {
	enum which which;
	unsigned int timeout_ms;
	int result;
	struct ibv_wc wc;
};
side_fn op_poll;

/* Waits for an async event and acknowledges it. type: -1 = none; element: a QP's number. */
struct op_async {
	unsigned int timeout_ms;
	int type;
	uint32_t qpn;
	bool of_srq, of_cq;
};
side_fn op_async;

/* The buffer's bytes: a pattern from a seed. first_bad: offset from `offset`, or -1. */
struct op_bytes {
	uint64_t offset, length;
	uint32_t seed;
	int64_t first_bad;
};
side_fn op_fill;
side_fn op_verify;

struct op_word {
	uint64_t offset, value;
	uint64_t wait_ms; /* op_peek: until it has `value` */
};
side_fn op_peek;
side_fn op_poke;

/* Registers [addr, addr + length) as region[slot]; addr 0: `offset` in the buffer. */
struct op_region {
	int slot;
	bool other_pd, at_null;
	uint64_t offset, addr, length;
	int access;
	uint32_t lkey, rkey;
	int error;
};
side_fn op_register;
side_fn op_deregister; /* slot -1: the region over the buffer */

/* New anonymous memory of `length` bytes, filled with `seed`; and its end. */
struct op_memory {
	uint64_t addr, length;
	uint32_t seed;
	int error;
};
side_fn op_map;
side_fn op_unmap;

struct op_destroy_qp {
	int qp, result;
};
side_fn op_destroy_qp;

uint8_t pattern(uint32_t seed, uint64_t i);

#endif
