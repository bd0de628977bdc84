/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protocol - the wire format of rsockets, that of rdma-core: the other end may be rdma-core's.
 *
 * A stream is an RC connection. Each end offers the other a receive buffer in two halves. The sender
 * puts data there by an RDMA WRITE whose immediate has the number of bytes. The receiver offers a half
 * that it has read again, by a WRITE of its description into the sender's list of targets. The halves
 * are filled one after the other, each to its end.
 *
 * The private data of the connection request and of its answer is a `hello`, big endian. It names
 * the list of targets, how many entries it has, and the first half. Behind the list, in the same
 * region, lies the list of mappings (riomap). What is written into the lists is in the byte order
 * of their owner, which HELLO_BIG_ENDIAN tells.
 *
 * An immediate is an operation in the upper 3 bits and a value below. Messages with data, and those
 * about mappings, use up a credit each; credits, and control messages, do not. A credit message has the
 * lower 16 bits of the number of messages that the other end may have sent in all.
 *
 * We return a credit when a message arrives. rdma-core returns it when the bytes were read, and never
 * for messages about mappings: each of those that is sent to it costs a credit for good.
 *
 * Datagrams go over UDP sockets with a `udp_header` until the other end's QP is known, then between
 * UD QPs with a `ud_header`. Both are in network byte order.
 */
#ifndef RSOCKET_PROTOCOL_H
#define RSOCKET_PROTOCOL_H

#include <stdint.h>

enum { PROTOCOL_VERSION = 1, PROTOCOL_TARGETS = 2 };

/* A range of memory at the other end. */
struct region {
	uint64_t addr;
	uint32_t key;
	uint32_t length; /* bytes; of a list, entries; 0: none */
};
_Static_assert(sizeof(struct region) == 16, "as on the wire");

struct mapping {
	uint64_t offset; /* what programs call it by */
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
	OP_DATA = 0,	/* bytes written */
	OP_CREDIT = 4,	/* how far the count may go; the list of targets may have changed */
	OP_MAPPING = 6, /* which entry of the list of mappings changed */
	OP_CONTROL = 7, /* enum control */
};

enum control {
	CONTROL_DISCONNECT = 0, /* neither sends nor reads any more */
	CONTROL_KEEPALIVE = 1,	/* means nothing */
	CONTROL_SHUTDOWN = 2,	/* sends no more */
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

/* Numbers above 128 travel in 8 bits as multiples of 256, rounded down. */
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
	uint8_t operation; /* OP_DATA, or OP_CONTROL: the sender's QP alone */
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
	DATAGRAM_MAX = 2048, /* of a message between UD QPs, with its header */
};

#endif
