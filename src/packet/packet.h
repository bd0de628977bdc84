/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet - the transport's packets as bytes and as fields (IBA chapter 9.2 to 9.4, volume 1).
 *
 * Pure: no state, no allocation, no I/O. A packet here begins with the BTH and ends before the ICRC
 * (packet/icrc.h). Fields are in host order, except immediate data, which stays in network order.
 */
#ifndef PACKET_PACKET_H
#define PACKET_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/operation.h"
#include "base/psn.h"

#define PACKET_BTH_BYTES    12
#define PACKET_HEADER_BYTES 64 /* no opcode has longer headers */
#define PACKET_MSN_MASK	    0xffffffu
#define PACKET_QPN_MASK	    0xffffffu
#define PACKET_PKEY	    0xffffu /* the default P_Key, full member: RoCE has no other */

/* The upper three bits of an opcode. */
enum packet_service {
	PACKET_RC = 0,
	PACKET_UC = 1,
	PACKET_RD = 2,
	PACKET_UD = 3,
	PACKET_CNP = 4, /* congestion notification: opcode 0x81 only */
	PACKET_XRC = 5,
};

/*
 * The meaning of an opcode's lower five bits, without position (FIRST, MIDDLE, LAST, ONLY),
 * immediate data and IETH: of a request its enum operation, of other packets these.
 */
enum packet_kind {
	PACKET_READ_RESPONSE = OPERATIONS_OF_PEER,
	PACKET_ACK,
	PACKET_ATOMIC_ACK,
	PACKET_NOTIFY_CONGESTION,
};

enum packet_header {
	PACKET_HAS_RETH = 1 << 0,
	PACKET_HAS_AETH = 1 << 1,
	PACKET_HAS_ATOMIC_ETH = 1 << 2,
	PACKET_HAS_ATOMIC_ACK_ETH = 1 << 3,
	PACKET_HAS_IMM = 1 << 4,
	PACKET_HAS_IETH = 1 << 5,
	PACKET_HAS_DETH = 1 << 6,
	PACKET_HAS_XRCETH = 1 << 7,
	PACKET_HAS_FETH = 1 << 8,
};

/* One row per opcode; kind 0, OPERATION_NONE: there is no such opcode. */
struct packet_opcode {
	uint8_t kind;	  /* enum operation, enum packet_kind */
	bool first;	  /* FIRST or ONLY */
	bool last;	  /* LAST or ONLY */
	bool payload;	  /* the packet may have payload */
	uint8_t bytes;	  /* of BTH and extended headers */
	uint16_t headers; /* enum packet_header */
	const char *name; /* as in the IBA: "RC SEND First" */
};

/* Never NULL. */
const struct packet_opcode *packet_opcode(uint8_t opcode);

/* Bytes of BTH and extended headers; 0: no such opcode. */
unsigned packet_header_bytes(uint8_t opcode);

static inline enum packet_service packet_service(uint8_t opcode)
{
	return (enum packet_service)(opcode >> 5);
}

/* The opcode of a service for this kind, position and set of IMM and IETH; -1: there is none. */
int packet_find_opcode(enum packet_service service, unsigned kind, bool first, bool last,
		       unsigned headers);

/* AETH syndrome (IBA 9.7.5.1): bits 5 and 6 are the kind. */
enum packet_syndrome {
	PACKET_SYNDROME_ACK = 0x00, /* | credit count; 31: no end-to-end credits */
	PACKET_SYNDROME_RNR = 0x20, /* | RNR timer code */
	PACKET_SYNDROME_NAK = 0x60, /* | enum packet_nak */
	PACKET_SYNDROME_MASK = 0x60,
	PACKET_SYNDROME_RESERVED = 0x80,
};
#define PACKET_ACK_UNLIMITED 31

enum packet_nak {
	PACKET_NAK_SEQUENCE = 0, /* PSN sequence error */
	PACKET_NAK_INVALID_REQUEST = 1,
	PACKET_NAK_REMOTE_ACCESS = 2,
	PACKET_NAK_REMOTE_OPERATION = 3,
	PACKET_NAK_INVALID_RD_REQUEST = 4,
};

struct packet {
	/* BTH */
	uint8_t opcode;
	uint8_t pad; /* 0..3 */
	bool solicited, migrated, fecn, becn, ack_req;
	/*
	 * The lower two of the 7 reserved bits beside AckReq, which others send as 0 and ignore.
	 * The first in a request: a response is missing, send it as it was. The second in a
	 * response: this is how it was.
	 */
	bool original;
	/*
	 * The next two of these bits. The first in a request: tell of each gap at once. The second
	 * in a NAK (PSN sequence error): it tells of a gap behind the first one, and acknowledges
	 * nothing; `psn` is the first packet that is missing, `msn` how many there are.
	 */
	bool gap_report;
	uint16_t pkey;
	uint32_t dest_qpn; /* 24 bits */
	psn_t psn;
	/* extended headers: fields of headers that the opcode does not have are 0 */
	uint64_t va;			  /* RETH, AtomicETH */
	uint32_t rkey;			  /* RETH, AtomicETH, IETH */
	uint32_t length;		  /* RETH: of the whole message */
	uint64_t swap_add, compare;	  /* AtomicETH */
	uint64_t atomic_result;		  /* AtomicAckETH */
	uint8_t syndrome;		  /* AETH */
	uint32_t msn;			  /* AETH, 24 bits */
	uint32_t imm;			  /* ImmDt, network order */
	uint32_t invalidate_rkey;	  /* IETH */
	uint32_t qkey, src_qpn;		  /* DETH */
	uint32_t xrc_srqn;		  /* XRCETH */
	uint8_t flush_types, flush_level; /* FETH: placement type, selectivity level */
	const uint8_t *payload;		  /* points into the decoded bytes */
	uint32_t payload_bytes;		  /* without the pad */
};

enum packet_error {
	PACKET_GOOD = 0,
	PACKET_TOO_SHORT,   /* for its headers, or for its pad */
	PACKET_BAD_VERSION, /* TVer is not 0 */
	PACKET_BAD_OPCODE,
	PACKET_BAD_PKEY,
	PACKET_BAD_LENGTH, /* payload where there is none, or not a multiple of 4 with the pad */
};

/*
 * Whether a batch of packets with their ICRCs, each of `segment` bytes but a shorter last one, has
 * an acknowledgement or a NAK of RC as the last, and requests of RC alone before it.
 */
bool packet_batch_ends_in_ack(const uint8_t *batch, size_t bytes, size_t segment);

/* Any bytes of any length. On an error *out holds the fields before it. */
enum packet_error packet_decode(const uint8_t *bytes, size_t length, struct packet *out);

/* *to = *from, quicker if *from was decoded a moment ago. The payload is not copied. */
void packet_copy(struct packet *to, const volatile struct packet *from);

/*
 * Writes BTH and extended headers to `header`; returns how many bytes. The opcode exists, and the
 * caller has set `pad`; the payload is not touched.
 */
unsigned packet_encode(const struct packet *packet, uint8_t header[PACKET_HEADER_BYTES]);

/* Sets the PSN of an encoded header, and clears its AckReq bit. */
void packet_renumber(uint8_t *header, psn_t psn);

#endif
