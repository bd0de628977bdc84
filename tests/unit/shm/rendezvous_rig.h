/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rendezvous rig - a QP and a region of ours, and a far end's: both regions have migrated as a
 * whole.
 */
#ifndef TESTS_UNIT_SHM_RENDEZVOUS_RIG_H
#define TESTS_UNIT_SHM_RENDEZVOUS_RIG_H

#include "rig.h"

#include "memory/heap.h"
#include "memory/key.h"
#include "shm/rendezvous.h"

#define FAR_SLOT	  9
#define FAR_QPN		  (FAR_SLOT << ARENA_QP_BITS | 1)
#define FAR_PD		  77
#define FAR_KEY		  0x12000134u
#define FAR_ADDR	  0x10000000ull /* of its region in its own address space */
#define HEAP_LEAD	  4096		/* of its heap before its region */
#define HEAP_PLACE	  (HEAP_FIRST + HEAP_LEAD)
#define PAGE		  4096
#define BYTES		  (1024 * 1024)
#define PSN		  1234
#define GENERATION	  3
#define SOURCE(at, bytes) ((struct record_source){ FAR_ADDR + (at), FAR_KEY, bytes, GENERATION, 0 })

extern struct rig rig;
extern struct far far;
extern struct qp *qp;
extern struct mr *mr;
extern uint8_t memory[BYTES]; /* of our region */
extern struct arena_key *key; /* likewise */
extern uint8_t *heap;	      /* the far end's from HEAP_FIRST on, its region at HEAP_LEAD */
extern struct arena_qp *far_qp;
extern struct arena_key *far_key;

int rendezvous_setup(enum ibv_qp_type type, bool with_srq);
void rendezvous_teardown(void);
/* Of our QP, which is in RESET. */
void connect_qp(void);
void post(enum ibv_wr_opcode opcode, struct ibv_sge *sge, int count);
/* A SEND of memory[at, at + bytes). */
void post_bytes(size_t at, uint32_t bytes);

#endif
