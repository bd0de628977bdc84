/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segment - the headers of DDP segments and RDMAP messages (RFC 5041 4, RFC 5040 4, RFC 7306), and
 * the sizes of FPDUs (RFC 5044 4).
 *
 *     ULPDU length (2) | DDP and RDMAP control (2) | rest of the header | payload | pad | CRC (4)
 *                      |<------------- ULPDU: the segment ------------>|
 *
 * Pure.
 */
#ifndef IWARP_SEGMENT_H
#define IWARP_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/operation.h"

#define FPDU_LENGTH_BYTES     2
#define FPDU_PAD_MAX	      3
#define FPDU_CRC_BYTES	      4
#define FPDU_ULPDU_MAX	      65535
#define FPDU_BYTES_MAX	      (FPDU_LENGTH_BYTES + FPDU_ULPDU_MAX + FPDU_PAD_MAX + FPDU_CRC_BYTES)
#define SEGMENT_CONTROL_BYTES 2
#define TAGGED_BYTES	      14
#define UNTAGGED_BYTES	      18
#define SEGMENT_HEADER_MAX    UNTAGGED_BYTES

/* What follows the DDP header. */
#define READ_REQUEST_BYTES    28
#define ATOMIC_REQUEST_BYTES  52
#define ATOMIC_RESPONSE_BYTES 12
#define IMMEDIATE_BYTES	      8
/* All that is not the program's memory. */
#define SEGMENT_BYTES_MAX (UNTAGGED_BYTES + ATOMIC_REQUEST_BYTES)

enum rdmap_opcode {
	RDMAP_WRITE = 0,
	RDMAP_READ_REQUEST = 1,
	RDMAP_READ_RESPONSE = 2,
	RDMAP_SEND = 3,
	RDMAP_SEND_INV = 4,
	RDMAP_SEND_SE = 5,
	RDMAP_SEND_SE_INV = 6,
	RDMAP_TERMINATE = 7,
	/* RFC 7306 */
	RDMAP_IMMEDIATE = 8,
	RDMAP_IMMEDIATE_SE = 9,
	RDMAP_ATOMIC_REQUEST = 10,
	RDMAP_ATOMIC_RESPONSE = 11,
	RDMAP_OPCODES,
};

/* The queues of untagged buffers. */
enum ddp_queue {
	QUEUE_SEND = 0,
	QUEUE_REQUEST = 1, /* READs and atomics */
	QUEUE_TERMINATE = 2,
	QUEUE_ATOMIC_RESPONSE = 3,
	DDP_QUEUES,
};

enum atomic_code {
	ATOMIC_FETCH_ADD = 0,
	ATOMIC_COMPARE_SWAP = 2,
};

struct segment {
	uint8_t opcode; /* of RDMAP: 0..15 */
	uint8_t ddp_version, rdmap_version;
	bool tagged, last;
	uint32_t stag;		 /* tagged: of the buffer; SEND_INV: to invalidate; else reserved */
	uint64_t to;		 /* tagged */
	uint32_t queue, msn, mo; /* untagged */
};

struct read_request {
	uint32_t sink_stag, source_stag, size;
	uint64_t sink_to, source_to;
};

struct atomic_request {
	uint8_t code; /* enum atomic_code, or another */
	uint32_t id, stag;
	uint64_t to;
	struct operands operands;
	uint64_t swap_mask, compare_mask;
};

/* Bytes of the DDP header, from its first byte. */
static inline unsigned segment_header_bytes(uint8_t control)
{
	return control & 0x80 ? TAGGED_BYTES : UNTAGGED_BYTES;
}

static inline unsigned fpdu_pad(uint32_t ulpdu)
{
	return -(ulpdu + FPDU_LENGTH_BYTES) & 3;
}

/* Bytes of the FPDU with a ULPDU of so many, markers left out. */
static inline uint32_t fpdu_bytes(uint32_t ulpdu)
{
	return FPDU_LENGTH_BYTES + ulpdu + fpdu_pad(ulpdu) + FPDU_CRC_BYTES;
}

/* Versions are those of the RFCs; returns the number of bytes. */
unsigned segment_encode(const struct segment *segment, uint8_t *to);
void segment_decode(const uint8_t *from, struct segment *segment);

void read_request_encode(const struct read_request *request, uint8_t *to);
void read_request_decode(const uint8_t *from, struct read_request *request);
void atomic_request_encode(const struct atomic_request *request, uint8_t *to);
void atomic_request_decode(const uint8_t *from, struct atomic_request *request);
void atomic_response_encode(uint32_t id, uint64_t value, uint8_t *to);

#endif
