/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP port - the state that the sending and the receiving half of an open address share.
 *
 * In:  a bound socket that receives.
 * Out: the socket with the options that RoCEv2 needs, and the sockets that send from its address.
 *
 * Only files of udp/ see inside.
 */
#ifndef UDP_UDP_PORT_H
#define UDP_UDP_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"
#include "udp/damage.h"
#include "udp/wire.h"

#define UDP_DATAGRAM_MAX 65535
#define UDP_SENDERS	 (1u << (24 - ARENA_QP_BITS)) /* one for each slot that a QPN can name */

struct udp_inbox;   /* udp_receive.c */
struct udp_scratch; /* udp_send.c */

enum udp_usual { USUAL_NONE, USUAL_SETTING, USUAL_KNOWN };

struct wire_sender {
	struct wire_port *port;
	int fd;
	uint16_t number; /* of UDP, host order */
	bool shared;	 /* its socket is the port's: no GSO batches, no UDP checksums */

	/*
	 * Traffic class and hop limit that the socket writes into headers by itself (IP_TOS,
	 * IP_TTL): those of the first unicast flow, since most flows are like it. The thread that
	 * turns USUAL_NONE into USUAL_SETTING sets them once; the state stays there if the kernel
	 * refuses. Other threads read them in USUAL_KNOWN. Flows with other values need control
	 * messages with each send, which cost more.
	 */
	_Atomic enum udp_usual usual;
	uint8_t usual_class, usual_hops;
};

struct wire_port {
	int fd;
	uint8_t gid[WIRE_GID_BYTES];
	/*
	 * Barrier MOVE: udp_move stores it, then looks for senders; a thread that has stored a
	 * sender loads it again. Each has a fence between, so at least one sees the other.
	 */
	_Atomic uint32_t ifindex;
	uint16_t number; /* of UDP, host order */
	bool is_v4;
	bool is_group;
	uint32_t ip_bytes;     /* of the IP and UDP header of each packet */
	uint32_t buffer_bytes; /* of the socket's receive buffer (SO_RCVBUF) */

	/* GSO works: cleared when the kernel has none, or the device no checksum offload. */
	atomic_bool segments;

	bool loops_multicast;

	/*
	 * By slot of the destination; NULL: not opened yet. Each is stored once (release, by the
	 * thread whose exchange succeeds), after all that it takes to use it, and loaded with
	 * acquire: barrier SENDER.
	 */
	struct wire_sender *_Atomic senders[UDP_SENDERS];
	struct wire_sender shared; /* in `senders` of slots that got no socket of their own */

	/*
	 * Where packets are counted: an entry of the arena that no other port has now, or
	 * `uncounted`. What was sent under scratch_lock, what came under receive_lock, which are
	 * taken anyway.
	 */
	struct arena_traffic *traffic;
	uint32_t device; /* of that entry, read once: a peer may be able to write there; 0: none */
	struct arena_traffic uncounted;

	/* Guards the list of free scratches; held for a few instructions. */
	struct lock scratch_lock;
	struct udp_scratch *scratches;

	/* Threads only try it. Guards the inbox. */
	struct lock receive_lock;
	struct udp_inbox *inbox;
	struct damage damage;
	unsigned alone; /* calls in a row that received one datagram */
	/* Received since the socket was found empty, or since packets last passed as backlogged. */
	uint64_t backlog_bytes;
};

/* setsockopt(2): 0 or -errno. */
int udp_set(int fd, int level, int option, int value);
/* Sets a buffer's size to BUFFER_BYTES, or to the administrator's limit if that is lower. */
void udp_set_buffer(int fd, int forced, int plain);

void udp_scratches_free(struct wire_port *port);

void udp_senders_close(struct wire_port *port);

/* NULL: out of memory. */
struct udp_inbox *udp_inbox_create(void);
void udp_inbox_destroy(struct udp_inbox *inbox);

#endif
