/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protocol - the wire format of rsockets: that of rdma-core (librdmacm/rsocket.c), which may be the
 * peer.
 *
 *   sender                                            receiver
 *      RDMA WRITE with immediate DATA n  ----------->  half 0 of the receive buffer
 *      RDMA WRITE with immediate DATA n  ----------->  ... to its end, then half 1
 *      list of targets  <--- RDMA WRITE with immediate CREDIT, once half 0 was read
 *
 * A stream is an RC connection. The private data of REQ and REP is a `hello`, big endian. It names
 * the list of targets, the number of its entries, and the first half. Behind the list, in the same
 * memory region, is the list of mappings (riomap). Entries are in the byte order of the list's
 * owner, which HELLO_BIG_ENDIAN tells.
 *
 * iWARP has no immediates (RFC 5040): there they are the 4 bytes of a SEND behind the WRITE, in the
 * receiver's byte order.
 *
 * An immediate has an operation in the upper 3 bits and a value below:
 *
 *   operation   uses a credit   value
 *   DATA        yes             bytes written
 *   CREDIT      no              the lower 16 bits of the number of messages that may be sent in all
 *   MAPPING     yes             the entry of the list of mappings that changed
 *   CONTROL     no              enum control
 *
 * This end returns a credit when a message arrives. rdma-core returns it when the program has read
 * the bytes, and never for MAPPING: each such message to it costs a credit for good.
 *
 * Datagrams go over UDP sockets with a `udp_header` until the peer's QP is known, then between UD
 * QPs with a `ud_header`. Both headers are in network byte order.
 */
#ifndef RSOCKET_PROTOCOL_H
#define RSOCKET_PROTOCOL_H

#include <stdint.h>

enum { PROTOCOL_VERSION = 1, PROTOCOL_TARGETS = 2 };

/* A range of memory at the peer. */
struct region {
	uint64_t addr;
	uint32_t key;
	uint32_t length; /* bytes, or entries of a list; 0: none */
};
_Static_assert(sizeof(struct region) == 16, "as on the wire");

struct mapping {
	uint64_t offset; /* that riomap returned, for riowrite */
	struct region region;
};
_Static_assert(sizeof(struct mapping) == 24, "as on the wire");

enum hello_flag { HELLO_BIG_ENDIAN = 1, HELLO_MAPPINGS = 2 };

struct hello {
	uint8_t version;
	uint8_t flags;
	uint16_t credits;
	uint8_t reserved[3];
	uint8_t mappings; /* entries of the list of mappings, by protocol_scale */
	struct region targets;
	struct region first; /* half of the receive buffer */
};
_Static_assert(sizeof(struct hello) == 40, "as on the wire");

enum operation {
	OP_DATA = 0,
	OP_CREDIT = 4, /* a target may have been written, too */
	OP_MAPPING = 6,
	OP_CONTROL = 7,
};

enum control {
	CONTROL_DISCONNECT = 0, /* the sender of this neither sends nor reads any more */
	CONTROL_KEEPALIVE = 1,	/* ignored */
	CONTROL_SHUTDOWN = 2,	/* the sender of this sends no more */
};

enum { MESSAGE_VALUE_MAX = 0x1fffffff };

static inline uint32_t message_make(enum operation operation, uint32_t value)
{
	return (uint32_t)operation << 29 | value;
}

static inline enum operation message_operation(uint32_t message)
{
	return (enum operation)(message >> 29);
}

static inline uint32_t message_value(uint32_t message)
{
	return message & MESSAGE_VALUE_MAX;
}

/* 8 bits hold numbers up to 128 as they are, and greater ones as multiples of 256, rounded down. */
static inline uint8_t protocol_scale(uint32_t number)
{
	if (number > 0x7fff)
		number = 0x7fff;
	return (uint8_t)(number <= 0x80 ? number : 0x80 | number >> 8);
}

static inline uint32_t protocol_unscale(uint8_t scaled)
{
	return scaled <= 0x80 ? scaled : (uint32_t)(scaled & 0x7f) << 8;
}

/* Datagrams */

#define UDP_HEADER_TAG 0x55555555u

struct udp_header {
	uint32_t tag;
	uint8_t version;   /* of IP: 4 or 6 */
	uint8_t operation; /* OP_DATA; or OP_CONTROL, which has no payload and tells the QP only */
	uint8_t length;	   /* of this header */
	uint8_t reserved;
	uint32_t qpn; /* the sender's */
	union {
		uint32_t ipv4;
		uint8_t ipv6[16];
	} addr; /* the sender's */
};

struct ud_header {
	uint8_t version; /* of IP: 4 or 6 */
	uint8_t length;	 /* of this header */
	uint16_t port;	 /* the sender's */
	union {
		uint32_t ipv4;
		struct {
			uint32_t flowinfo;
			uint8_t addr[16];
		} ipv6;
	} addr; /* the sender's */
};

enum {
	UDP_HEADER_IPV4 = 16,
	UDP_HEADER_IPV6 = 28,
	UD_HEADER_IPV4 = 8,
	UD_HEADER_IPV6 = 24,
	DATAGRAM_MAX = 2048, /* bytes of a message between UD QPs, with its header */
};

#endif
