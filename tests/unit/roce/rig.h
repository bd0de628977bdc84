/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig - the transport without an adapter: QPs of one process, a wire that is a queue in memory, and
 * a clock that the test sets.
 *
 * rig_create, rig_qp, rig_connect; then rig_post_send and rig_run. Packets wait in the queue until
 * rig_run, or rig_step one by one, delivers them; a test may inspect, change or drop them before
 * (rig_on_packet).
 */
#ifndef TESTS_UNIT_ROCE_RIG_H
#define TESTS_UNIT_ROCE_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "object/context.h"
#include "object/cq.h"
#include "object/mr.h"
#include "object/pd.h"
#include "object/qp.h"
#include "object/qp_create.h"
#include "object/qp_table.h"
#include "object/srq.h"
#include "object/xrcd.h"
#include "packet/packet.h"
#include "roce/roce.h"
#include "roce/roce_qp.h"

#define RIG_SLOT      5
#define RIG_WIRE_MAX  8192
#define RIG_BYTES_MAX 4224
#define RIG_MEMBERS   4
#define RIG_CALLS     64

struct rig_packet {
	struct wire_flow flow; /* as the receiver sees it */
	uint32_t in_batch;     /* its place there; 0: the first, or by itself */
	uint16_t length;
	uint8_t bytes[RIG_BYTES_MAX];
};

struct rig {
	struct context *context;
	struct pd *pd;
	struct cq *cq;
	struct channel *channel; /* rig_add_channel; or NULL */
	struct xrcd *xrcd;	 /* made by the first rig_xrc_srq; or NULL */
	void *arena;
};

extern void (*rig_before_send)(void); /* called once, by the thread that sends next */
extern uint64_t rig_now_ns, rig_deadline_ns;
extern uint32_t rig_sent; /* packets since rig_create */
/* the socket takes so many packets, then is full; UINT32_MAX: never */
extern uint32_t rig_full_after;
extern enum wire_result rig_refusal; /* result of a full socket: WIRE_FULL, ... */
extern bool rig_backlogged;	     /* wire_arrival.backlogged of what is delivered */
extern bool rig_without_gso;	     /* each packet is a datagram of its own */
/* How many packets each of the last calls sent; a test may set rig_calls to 0. */
extern uint32_t rig_calls, rig_call_packets[RIG_CALLS];
/* wire_flow.buffer_bytes of QPs that are connected from now on. */
extern uint32_t rig_buffer_bytes;
/* Called for each packet before it is delivered; false: it is lost. May be NULL. */
extern bool (*rig_on_packet)(struct rig_packet *packet, struct packet *decoded);

void rig_create(struct rig *rig);
void rig_destroy(struct rig *rig);

/* The CQ has a channel; before any QP is made. */
void rig_add_channel(struct rig *rig);
bool rig_has_event(const struct rig *rig);

/* An SRQ of XRC, with 64 receives; before the QPs that receive for it. */
struct srq *rig_xrc_srq(struct rig *rig, struct pd *pd);

/*
 * A QP in RESET, with 64 requests in each queue, 8 SGEs to send and 4 to receive, inline up to 256
 * bytes.
 */
struct qp *rig_qp(struct rig *rig, enum ibv_qp_type type);

struct rig_options {
	enum ibv_mtu mtu;
	uint32_t access;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t rd_atomic;
	uint32_t psn;	    /* of `a` to `b`; the other way it is 1000 more */
	bool receives_only; /* b stays in RTR */
};

/* Connects the two with each other: RESET to RTS. */
void rig_connect(struct qp *a, struct qp *b, const struct rig_options *options);
void rig_modify(struct qp *qp, enum ibv_qp_state state);

struct mr *rig_mr(struct rig *rig, void *addr, size_t length, uint32_t access);
void rig_post_send(struct qp *qp, struct ibv_send_wr *wr);
/* By the steps of a builder: struct ibv_send_wr has no fields for a FLUSH. */
void rig_post_flush(struct qp *qp, uint64_t wr_id, uint64_t address, uint32_t rkey, uint32_t bytes,
		    uint32_t types, uint32_t level);
void rig_post_receive(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge);

/* Sets a QP that gets multicast packets of any group. */
void rig_set_member(unsigned i, struct qp *qp);

/* Delivers the oldest packet; false: there is none. The second sets arrival.more. */
bool rig_step(void);
bool rig_step_more(void);
uint32_t rig_waiting(void);
/* The i-th packet that waits, decoded. */
struct packet rig_peek(uint32_t i);
/* Puts a packet into the wire as if `from` had sent it to its peer. */
void rig_inject(struct qp *from, const struct packet *packet, const void *payload);
/* Runs until no packet is in flight; timers due by `until_ns` fire, and the clock reaches it. */
void rig_run(uint64_t until_ns);

/* The next completion, which has to be there. */
struct ibv_wc rig_completion(struct rig *rig);
bool rig_is_quiet(struct rig *rig); /* no completion waits */

#endif
