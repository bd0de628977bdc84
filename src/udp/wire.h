/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wire - packets between this process and the network, in the terms of the transport.
 *
 * A packet here is the payload of a UDP datagram (IBA annex A17): BTH, extended headers, payload,
 * pad. The ICRC is not part of it: udp_send appends it, udp_receive has checked it.
 */
#ifndef UDP_WIRE_H
#define UDP_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define WIRE_UDP_PORT	  4791
#define WIRE_GID_BYTES	  16
#define WIRE_HEADER_BYTES 64 /* room for BTH and the longest extended headers */
#define WIRE_PIECES	  4  /* of a payload; a payload of more pieces is copied together first */
/* What a receiver's buffer takes for a packet beside its payload, as senders and receivers count.
 */
#define WIRE_PACKET_EXTRA 512
#define WIRE_BURST	  64 /* packets in one call of udp_send, at most */

/* The lowest two bits of wire_flow.traffic_class: explicit congestion notification (RFC 3168). */
#define WIRE_ECN_MASK  3
#define WIRE_ECN_ECT_0 2 /* the sender understands it */
#define WIRE_ECN_CE    3 /* a router was congested */

/* Limits of a GSO batch: packets of one size, of which the last may be shorter. */
#define WIRE_GSO_PACKETS 64		  /* UDP_MAX_SEGMENTS of older kernels */
#define WIRE_GSO_BYTES	 (65535 - 40 - 8) /* with ICRCs; after an IPv6 and a UDP header */

struct wire_port;   /* udp/udp.h: an open address of this process */
struct wire_sender; /* udp/udp.h: sends from there to one process of each other host */

/*
 * The addresses of packets. Fixed for a connection. In an arrival they are the packet's own:
 * `local` is its destination, which may be a multicast group. hop_limit 0: to send, the socket's
 * default; in an arrival, not known (udp_enable_hop_limits).
 */
struct wire_flow {
	uint8_t local[WIRE_GID_BYTES];	/* GIDs: IPv4-mapped or IPv6 addresses of this host, ... */
	uint8_t remote[WIRE_GID_BYTES]; /* ... of the other end, or a multicast group */
	uint32_t ifindex;		/* of link-local and multicast addresses; else 0 */
	uint32_t flow_label;		/* IPv6 only */
	uint8_t traffic_class; /* TOS or traffic class, with the ECN bits: ECT(0) to send */
	uint8_t hop_limit;
	uint32_t buffer_bytes;	    /* the other end's receive buffer, as estimated; 0: not known */
	bool one_by_one;	    /* to send: no GSO batches */
	struct wire_port *port;	    /* that received it; to send, that receives the answers */
	struct wire_sender *sender; /* to send: udp_sender; in an arrival NULL */
};

struct wire_packet {
	uint8_t header[WIRE_HEADER_BYTES];
	uint16_t header_bytes;	/* BTH and what follows it, up to the payload */
	uint16_t payload_bytes; /* sum of the pieces, without the pad */
	uint8_t pad_bytes;	/* zeroes after the payload: 0..3 */
	uint8_t pieces;
	bool pinned; /* the payload is known to be readable: no check (udp/readable.h) */
	struct iovec piece[WIRE_PIECES]; /* unchanged until the call returns */
};

/* A received packet with a correct ICRC. */
struct wire_arrival {
	const struct wire_flow *flow;
	const uint8_t *bytes; /* from the BTH on, without the ICRC; valid during the call */
	uint32_t length;
	uint64_t when_ns; /* CLOCK_MONOTONIC */
	/*
	 * The same thread passes another packet of the same receive call (GRO) next, and does
	 * nothing else before. The bytes of this one stay until that call returns.
	 */
	bool more;
	/*
	 * The socket has not been found empty for long: it fills faster than it is read, and will
	 * soon overflow. Set for the packets of one receive call, then not for as long again.
	 */
	bool backlogged;
};

/* Why udp_send took fewer packets than it was given. */
enum wire_result {
	WIRE_SENT = 0,	   /* all were sent */
	WIRE_FULL = 1,	   /* the socket is full: try again a little later */
	WIRE_FAULT = 2,	   /* the next packet's payload is not readable memory */
	WIRE_NO_ROUTE = 3, /* no address, no route, interface down: the packet counts as lost */
	WIRE_TOO_LONG = 4, /* the path's MTU is smaller than the packet */
	WIRE_NO_PORT = 5,  /* the port of a first UD packet is being opened (roce_env.resolve) */
};

#endif
