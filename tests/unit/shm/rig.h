/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig - the shared-memory path without an adapter: one process's objects, and links whose other end
 * is the test.
 *
 * rig_create, far_create, rig_qp, rig_connect; then both ends are driven by hand: the near one by
 * rig_post_send, rig_post_receive and progress_link, the far one by writing its ring (far_send, or
 * whatever a hostile process would do) and reading ours (far_next).
 */
#ifndef TESTS_UNIT_SHM_RIG_H
#define TESTS_UNIT_SHM_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "object/qp_create.h"
#include "object/qp_table.h"
#include "shm/link.h"
#include "shm/shm_qp.h"
#include "object/context.h"
#include "object/cq.h"
#include "object/mr.h"
#include "object/pd.h"
#include "object/qp.h"

#define RING_BYTES RING_BYTES_MIN

#define RIG_SLOT 5

struct rig {
	struct context *context;
	struct pd *pd;
	struct cq *cq;
	void *arena;
	struct link *self; /* our link to ourselves */
};

/* The other end of a link. */
struct far {
	struct link *link; /* the near end */
	int shared_fd;
	void *shared;
	struct ring_control *control; /* [0]: of our ring, theirs to write; [1]: of theirs */
	struct ring_producer tx;
	struct ring_consumer rx;
	void *arena; /* writable; the link has it read-only */
	uint32_t slot;
};

/* Deadlines of shm_env.deadline, and calls of shm_env.kick. */
extern uint64_t rig_deadline_ns;
extern uint32_t rig_deadlines, rig_kicks;
/* find_link sets *asked for an unknown process. */
extern bool rig_is_asked;
/* Called once, after a process was looked for in vain. */
extern void (*rig_meanwhile)(void);

void rig_create(struct rig *rig);
void rig_destroy(struct rig *rig);

void far_create(struct far *far, uint32_t slot);
/* No QP may be connected over it any more. */
void far_destroy(struct far *far);
/* Puts one record into the ring as it is, but for the word: `bytes` of payload, at most 16 KiB. */
void far_send(struct far *far, uint32_t kind, uint32_t flags, struct record_header header,
	      const void *payload);
/* Takes the next record of ours. False: there is none. */
bool far_next(struct far *far, struct record_header *header);
/* Acknowledges everything that was taken. */
void far_acknowledge(struct far *far);

/* A QP in RESET, with 16 requests in each queue and 4 SGEs. */
struct qp *rig_qp(struct rig *rig, enum ibv_qp_type type);

struct rig_connection {
	uint32_t slot, qpn; /* of the other end */
	uint32_t access;    /* enum ibv_access_flags */
	uint8_t timeout, retry_cnt, rnr_retry;
	uint8_t rd_atomic;  /* 0: 4 */
	uint32_t psn;	    /* in both directions */
	bool receives_only; /* RTR, not RTS */
};

/* RESET to RTS (or RTR). */
void rig_connect(struct qp *qp, const struct rig_connection *connection);
void rig_reset(struct qp *qp);

struct mr *rig_mr(struct rig *rig, void *addr, size_t length, uint32_t access);

void rig_post_send(struct qp *qp, struct ibv_send_wr *wr);
void rig_post_receive(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge);
/* Calls progress_link until it has no more to do, a bounded number of times. */
void rig_progress(struct link *link);

uint32_t draw(uint32_t *random);
uint64_t now_ns(void);

#endif
