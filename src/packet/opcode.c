/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/packet.h"

#define RETH	       PACKET_HAS_RETH
#define AETH	       PACKET_HAS_AETH
#define ATOMIC_ETH     PACKET_HAS_ATOMIC_ETH
#define ATOMIC_ACK_ETH PACKET_HAS_ATOMIC_ACK_ETH
#define IMM	       PACKET_HAS_IMM
#define IETH	       PACKET_HAS_IETH
#define DETH	       PACKET_HAS_DETH
#define XRCETH	       PACKET_HAS_XRCETH
#define FETH	       PACKET_HAS_FETH

#define BYTES_OF(headers, header, bytes) ((headers) & (header) ? (bytes) : 0)
#define HEADER_BYTES(headers)                                                                      \
	(PACKET_BTH_BYTES + BYTES_OF(headers, RETH, 16) + BYTES_OF(headers, AETH, 4) +             \
	 BYTES_OF(headers, ATOMIC_ETH, 28) + BYTES_OF(headers, ATOMIC_ACK_ETH, 8) +                \
	 BYTES_OF(headers, IMM, 4) + BYTES_OF(headers, IETH, 4) + BYTES_OF(headers, DETH, 8) +     \
	 BYTES_OF(headers, XRCETH, 4) + BYTES_OF(headers, FETH, 4))

/* kind, first, last, payload, headers */
#define ROW(service, low, text, kind, first, last, payload, headers)                               \
	[(service) << 5 | (low)] = { kind,    first, last, payload, HEADER_BYTES(headers),         \
				     headers, text }

/* IBA table 38. `eth` is the header that all requests of the service have. */
#define SEND_AND_WRITE(service, name, eth)                                                         \
	ROW(service, 0x00, name " SEND First", OPERATION_SEND, 1, 0, 1, eth),                      \
		ROW(service, 0x01, name " SEND Middle", OPERATION_SEND, 0, 0, 1, eth),             \
		ROW(service, 0x02, name " SEND Last", OPERATION_SEND, 0, 1, 1, eth),               \
		ROW(service, 0x03, name " SEND Last with Immediate", OPERATION_SEND, 0, 1, 1,      \
		    (eth) | IMM),                                                                  \
		SEND_ONLY(service, name, eth),                                                     \
		ROW(service, 0x06, name " RDMA WRITE First", OPERATION_WRITE, 1, 0, 1,             \
		    (eth) | RETH),                                                                 \
		ROW(service, 0x07, name " RDMA WRITE Middle", OPERATION_WRITE, 0, 0, 1, eth),      \
		ROW(service, 0x08, name " RDMA WRITE Last", OPERATION_WRITE, 0, 1, 1, eth),        \
		ROW(service, 0x09, name " RDMA WRITE Last with Immediate", OPERATION_WRITE, 0, 1,  \
		    1, (eth) | IMM),                                                               \
		ROW(service, 0x0a, name " RDMA WRITE Only", OPERATION_WRITE, 1, 1, 1,              \
		    (eth) | RETH),                                                                 \
		ROW(service, 0x0b, name " RDMA WRITE Only with Immediate", OPERATION_WRITE, 1, 1,  \
		    1, (eth) | RETH | IMM)

#define SEND_ONLY(service, name, eth)                                                              \
	ROW(service, 0x04, name " SEND Only", OPERATION_SEND, 1, 1, 1, eth),                       \
		ROW(service, 0x05, name " SEND Only with Immediate", OPERATION_SEND, 1, 1, 1,      \
		    (eth) | IMM)

/*
 * Requests with responses (annex A19 has the last two rows), and responses, which have the same
 * headers in all services.
 */
#define READ_AND_ATOMIC(service, name, eth)                                                        \
	ROW(service, 0x0c, name " RDMA READ Request", OPERATION_READ, 1, 1, 0, (eth) | RETH),      \
		ROW(service, 0x0d, name " RDMA READ response First", PACKET_READ_RESPONSE, 1, 0,   \
		    1, AETH),                                                                      \
		ROW(service, 0x0e, name " RDMA READ response Middle", PACKET_READ_RESPONSE, 0, 0,  \
		    1, 0),                                                                         \
		ROW(service, 0x0f, name " RDMA READ response Last", PACKET_READ_RESPONSE, 0, 1, 1, \
		    AETH),                                                                         \
		ROW(service, 0x10, name " RDMA READ response Only", PACKET_READ_RESPONSE, 1, 1, 1, \
		    AETH),                                                                         \
		ROW(service, 0x11, name " Acknowledge", PACKET_ACK, 1, 1, 0, AETH),                \
		ROW(service, 0x12, name " ATOMIC Acknowledge", PACKET_ATOMIC_ACK, 1, 1, 0,         \
		    AETH | ATOMIC_ACK_ETH),                                                        \
		ROW(service, 0x13, name " CmpSwap", OPERATION_COMPARE_SWAP, 1, 1, 0,               \
		    (eth) | ATOMIC_ETH),                                                           \
		ROW(service, 0x14, name " FetchAdd", OPERATION_FETCH_ADD, 1, 1, 0,                 \
		    (eth) | ATOMIC_ETH),                                                           \
		ROW(service, 0x16, name " SEND Last with Invalidate", OPERATION_SEND, 0, 1, 1,     \
		    (eth) | IETH),                                                                 \
		ROW(service, 0x17, name " SEND Only with Invalidate", OPERATION_SEND, 1, 1, 1,     \
		    (eth) | IETH),                                                                 \
		ROW(service, 0x1c, name " FLUSH", OPERATION_FLUSH, 1, 1, 0, (eth) | FETH | RETH),  \
		ROW(service, 0x1d, name " ATOMIC WRITE", OPERATION_ATOMIC_WRITE, 1, 1, 1,          \
		    (eth) | RETH)

static const struct packet_opcode opcodes[256] = {
	SEND_AND_WRITE(PACKET_RC, "RC", 0),
	READ_AND_ATOMIC(PACKET_RC, "RC", 0),
	SEND_AND_WRITE(PACKET_UC, "UC", 0),
	SEND_ONLY(PACKET_UD, "UD", DETH),
	/* Its payload is 16 reserved bytes (annex A17). */
	ROW(PACKET_CNP, 0x01, "CNP", PACKET_NOTIFY_CONGESTION, 1, 1, 1, 0),
	SEND_AND_WRITE(PACKET_XRC, "XRC", XRCETH),
	READ_AND_ATOMIC(PACKET_XRC, "XRC", XRCETH),
};

const struct packet_opcode *packet_opcode(uint8_t opcode)
{
	return &opcodes[opcode];
}

unsigned packet_header_bytes(uint8_t opcode)
{
	return opcodes[opcode].bytes;
}

/*
 * Where IBA table 38 has such a row, if it has one: SENDs, WRITEs and READ responses have FIRST,
 * MIDDLE, LAST, ONLY in this order, behind LAST and ONLY those with an immediate.
 */
static unsigned place_of(unsigned kind, bool first, bool last, unsigned carried)
{
	unsigned part = last ? 2 + 2u * first : 1u - first, imm = carried == IMM;

	switch (kind) {
	case OPERATION_SEND:
		return carried == IETH ? 0x16u + first : part + imm;
	case OPERATION_WRITE:
		return 0x06 + part + imm;
	case OPERATION_READ:
		return 0x0c;
	case PACKET_READ_RESPONSE:
		return 0x0d + (part == 4 ? 3u : part);
	case PACKET_ACK:
		return 0x11;
	case PACKET_ATOMIC_ACK:
		return 0x12;
	case OPERATION_COMPARE_SWAP:
		return 0x13;
	case OPERATION_FETCH_ADD:
		return 0x14;
	case OPERATION_FLUSH:
		return 0x1c;
	case OPERATION_ATOMIC_WRITE:
		return 0x1d;
	default:
		return 0x01; /* CNP */
	}
}

int packet_find_opcode(enum packet_service service, unsigned kind, bool first, bool last,
		       unsigned headers)
{
	unsigned carried = headers & (IMM | IETH);
	unsigned opcode = (unsigned)service << 5 | place_of(kind, first, last, carried);
	const struct packet_opcode *row = &opcodes[opcode];

	if (row->kind != kind || row->first != first || row->last != last ||
	    (row->headers & (IMM | IETH)) != carried)
		return -1;
	return (int)opcode;
}
