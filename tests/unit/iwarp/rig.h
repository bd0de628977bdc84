/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rig - the iWARP engine without an adapter: two QPs of one process, a stream in each direction
 * that is a queue of bytes in memory.
 *
 * rig_create, rig_connect; then rig_post and rig_run. Bytes wait in the queues until the other QP
 * reads them; a test may look at them, change, add or cut them before.
 */
#ifndef TESTS_UNIT_IWARP_RIG_H
#define TESTS_UNIT_IWARP_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "iwarp/iwarp.h"
#include "iwarp/iwarp_qp.h"
#include "object/context.h"
#include "object/cq.h"
#include "object/mr.h"
#include "object/pd.h"
#include "object/qp.h"

#define RIG_STREAM_BYTES (4 << 20)
#define RIG_BYTES	 (1 << 20) /* of each region */
#define RIG_IMM		 0x12345678u

/* One end of the connection. What it sends is in its `bytes`. */
struct rig_end {
	struct qp *qp;
	struct cq *cq;
	struct mr *mr;
	uint8_t *memory;
	uint8_t *bytes; /* head to tail: sent, and not read by the other end */
	size_t head, tail;
	size_t room;  /* how many bytes `send` takes until the next rig_run; SIZE_MAX: all */
	size_t piece; /* how many bytes a `receive` yields at most */
	unsigned sends, receives;
	bool shut, broken;
	bool refused;		    /* `send` fails; what has come may still be received */
	bool is_ending, is_failing; /* `ending` was called, with `failed` */
	enum iwarp_end end;
	unsigned ends;	       /* calls of `ended` */
	unsigned again, turns; /* likewise */
	struct rig_end *peer;
};

extern struct rig_end rig[2];

/* Two QPs in INIT; the second with an SRQ if asked. */
void rig_create(uint32_t access);
int rig_destroy(void **state);

/* Attaches both; options of the second are the mirror of the first's. NULL: all defaults. */
void rig_connect(const struct iwarp_options *options);
struct iwarp_options rig_options(void);

/* From the beginning of the end's region, to that of the other end's. */
void rig_post(unsigned end, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t wr_id);
void rig_post_wr(unsigned end, struct ibv_send_wr *wr);
void rig_receive(unsigned end, uint64_t wr_id, uint32_t bytes);

/* Until neither end has anything to read or to send. */
void rig_run(void);
/* What a responder waits with (iwarp_may_be_early) leaves. rig_run does it last. */
void rig_open_gate(unsigned end);
/* One end reads once. */
enum iwarp_progress rig_read(unsigned end);

/* The stream of an end has room again, if it waits for that. True: bytes left. */
bool rig_make_room(unsigned end);

/* The next completion of an end, which has to be this. */
struct ibv_wc rig_expect(unsigned end, uint64_t wr_id, enum ibv_wc_status status);
bool rig_is_quiet(unsigned end);
/* The next async event of either QP, which has to be there. */
enum ibv_event_type rig_event(void);
bool rig_has_event(void);

/* Puts bytes into the stream of an end. */
void rig_inject(unsigned end, const void *bytes, size_t count);

#endif
