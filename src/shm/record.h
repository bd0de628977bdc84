/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Record - the format of the records in a ring between two processes of a host.
 *
 * A record is a header of 48 bytes and its payload, padded to a multiple of 64 bytes, at a position
 * that is a multiple of 64. It corresponds to a packet of the wire, with a "path MTU" of
 * RECORD_PAYLOAD_MAX:
 *
 *   0   word         kind | flags << 8 | size in units of 64 bytes << 16; 0 = not written yet
 *   4   dst_qpn      the destination QP
 *   8   src_qpn      the QP that sends it
 *   12  msn          sequence number of its message, 24 bits, starts at the requester's sq_psn; and
 *                    8 bits that count the requester's attempts: answers carry both back
 *   16  total        length of the whole message (NAK: RNR timer code, NAK_UNCOUNTED, NAK_BY_RING)
 *   20  bytes        length of the payload in this record (16 bits)
 *   22  srqn         XRC: place of the message's SRQ (object/xrcd.h); 0: none of dst_qpn's process
 *   24  imm          immediate data, R_Key to invalidate (NAK: enum nak; datagram: Q_Key in rkey)
 *   28  rkey         R_Key (datagram: Q_Key; NAK: enum cause)
 *   32  remote_addr  address at the responder
 *   40  acked        everything of the other direction below this position was executed, and any
 *                    NAK for it stands before this record: see RING-4 in ring.h
 *   48  payload      (of atomics, ATOMIC_WRITE and FLUSH: struct operands; a datagram: GRH, data;
 *                    with RECORD_BY_KEY: struct record_source, and room, see there)
 *
 * FLUSH: `total` is the length of its range.
 *
 * The reader copies the header out, checks the copy, and never trusts a value: see record_is_sane.
 */
#ifndef SHM_RECORD_H
#define SHM_RECORD_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/operation.h"

#define RECORD_UNIT	   64
#define RECORD_PAYLOAD_MAX (16 * 1024)
#define MSN_MASK	   0xffffff

/* A request's kind is its enum operation. Other kinds: */
enum record_kind {
	RECORD_DATAGRAM = OPERATIONS_OF_PEER,
	/* answers, to a completer */
	RECORD_READ_RESPONSE,
	RECORD_ATOMIC_RESPONSE,
	RECORD_NAK,
	/* to the process: requests migration of the region of `rkey` (memory/migrate.h) */
	RECORD_MIGRATE,
	RECORD_KINDS
};

enum record_flags {
	RECORD_FIRST = 1 << 0,
	RECORD_LAST = 1 << 1,
	RECORD_IMM = 1 << 2,
	RECORD_INV = 1 << 3,
	RECORD_SOLICITED = 1 << 4,
	RECORD_UNACKED = 1 << 5, /* UC: the requester waits for no answer */
	RECORD_NO_GRH = 1 << 6,	 /* datagrams: the program gets no GRH */
	/* SEND, WRITE with immediate: the responder fetches the payload (shm/rendezvous.h) */
	RECORD_BY_KEY = 1 << 6,
	/* the sender is XRC_SEND; with RECORD_UNACKED this names the service */
	RECORD_XRC = 1 << 7,
};

/* Why a responder refuses a request. Acknowledgements are the ring's acked index. */
enum nak {
	NAK_RNR = 1, /* no receive: again after the timer in `total` */
	NAK_SILENCE, /* on a wire there would be no answer: the requester's time-out starts */
	NAK_INVALID_REQUEST,  /* -> REM_INV_REQ_ERR */
	NAK_REMOTE_ACCESS,    /* -> REM_ACCESS_ERR */
	NAK_REMOTE_OPERATION, /* -> REM_OP_ERR */
	NAK_UNREACHABLE	      /* no such QP, or another service: -> RETRY_EXC_ERR, no retry */
};

/* In `total` of NAK_RNR: the responder does not lack a receive; does not count for rnr_retry. */
#define NAK_UNCOUNTED 0x80
/* With it: the source of RECORD_BY_KEY could not be reached; again through the ring. */
#define NAK_BY_RING 0x40

struct record_header {
	uint32_t word;
	uint32_t dst_qpn;
	uint32_t src_qpn;
	uint32_t msn;
	uint32_t total;
	uint16_t bytes;
	uint16_t srqn;
	uint32_t imm;
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t acked;
};

/*
 * Memory of the requester that holds a piece of the message. The record is as long as a sixteenth
 * of the piece: bounds that are counted in bytes of the ring so hold for the payload, too.
 */
struct record_source {
	uint64_t address;
	uint32_t key; /* the L_Key */
	uint32_t bytes;
	uint32_t generation; /* of the requester: arena_qp.generation */
	uint32_t reserved;
};

struct record {
	struct record_header header; /* header.word: only ring_peek and ring_publish access it */
	uint8_t payload[];
};

static_assert(sizeof(struct record_header) == 48, "record header");

#define RECORD_BYTES_MAX (sizeof(struct record_header) + RECORD_PAYLOAD_MAX + RECORD_UNIT)

static inline uint32_t record_units(uint32_t bytes)
{
	return (sizeof(struct record_header) + bytes + RECORD_UNIT - 1) / RECORD_UNIT;
}

static inline uint32_t record_word(uint32_t kind, uint32_t flags, uint32_t bytes)
{
	return kind | flags << 8 | record_units(bytes) << 16;
}

/* enum operation or enum record_kind */
static inline uint32_t record_kind(const struct record_header *header)
{
	return header->word & 0xff;
}

static inline uint32_t record_flags(const struct record_header *header)
{
	return header->word >> 8 & 0xff;
}

/* A datagram's flag of this bit is another. */
static inline bool record_is_by_key(const struct record_header *header)
{
	return record_flags(header) & RECORD_BY_KEY &&
	       (record_kind(header) == OPERATION_SEND || record_kind(header) == OPERATION_WRITE);
}

static inline uint32_t record_size(const struct record_header *header)
{
	return (header->word >> 16) * RECORD_UNIT;
}

/* The sizes fit each other. Callers check all other fields. */
static inline bool record_is_sane(const struct record_header *header)
{
	return record_kind(header) != OPERATION_NONE && record_kind(header) < RECORD_KINDS &&
	       header->bytes <= RECORD_PAYLOAD_MAX &&
	       header->word >> 16 == record_units(header->bytes);
}

static inline uint32_t record_msn(const struct record_header *header)
{
	return header->msn & MSN_MASK;
}

static inline uint32_t msn_next(uint32_t msn)
{
	return (msn + 1) & MSN_MASK;
}

#endif
