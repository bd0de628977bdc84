/*
 * UDP port - what the sending and the receiving half of an open address share.
 *
 * In:  a bound socket that receives.
 * Out: the socket with all that RoCEv2 needs of it, and the sockets that send from its address.
 *
 * Only the files of the UDP wire see inside.
 */
#ifndef UDP_UDP_PORT_H
#define UDP_UDP_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/lock.h"
#include "udp/damage.h"
#include "udp/udp.h"

#define UDP_DATAGRAM_MAX 65535
#define UDP_SENDERS	 (1u << (24 - ARENA_QP_BITS)) /* one for each slot that a QPN can name */

struct udp_inbox;   /* udp_receive.c */
struct udp_scratch; /* udp_send.c */

enum udp_usual { USUAL_NONE, USUAL_SETTING, USUAL_KNOWN };

struct wire_sender {
	struct wire_port *port;
	int fd;
	uint16_t number; /* of UDP, host order */
	bool shared;	 /* with the port: no GSO batches, no checksums of UDP */

	/*
	 * What the socket writes into headers by itself: that of the first unicast flow that is sent, since
	 * most are like it. Set once, by whoever turns USUAL_NONE into USUAL_SETTING, which it stays if the
	 * kernel refuses; read if it is USUAL_KNOWN. Others are told to the kernel with each send, which
	 * costs it more.
	 */
	_Atomic enum udp_usual usual;
	uint8_t usual_class, usual_hops;
};

struct wire_port {
	int fd;
	uint8_t gid[WIRE_GID_BYTES];
	uint32_t ifindex;
	uint16_t number; /* of UDP, host order */
	bool is_v4;

	/* GSO batches: cleared when the device turns out to have no checksum offload, or the kernel none. */
	atomic_bool segments;

	bool loops_multicast;

	/*
	 * By slot of the destination; NULL: not opened yet. Each is stored once (release, by the thread whose
	 * exchange succeeds), after all that it takes to use it, and loaded with acquire: barrier SENDER.
	 */
	struct wire_sender *_Atomic senders[UDP_SENDERS];
	struct wire_sender shared; /* what is in `senders` where there is none of its own */

	/* Guards the free scratches; held for a few instructions. */
	struct lock scratch_lock;
	struct udp_scratch *scratches;

	/* Only tried. Guards the inbox and what is received. */
	struct lock receive_lock;
	struct udp_inbox *inbox;
	struct damage damage;
	unsigned alone; /* datagrams in a row that a call found by themselves */

	_Atomic uint64_t sent_packets, sent_calls;
	_Atomic uint64_t received_packets, received_calls;
	_Atomic uint64_t damaged, dropped_by_test;
};

static inline void udp_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* Those that only the receiver counts, with the receive lock. */
static inline void udp_count_owned(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

void udp_scratches_free(struct wire_port *port);

/* Of a socket that sends from the port's address; what the kernel does not know it does without. */
void udp_prefer_sending(const struct wire_port *port, int fd);
void udp_senders_close(struct wire_port *port);

/* NULL: out of memory. */
struct udp_inbox *udp_inbox_create(void);
void udp_inbox_destroy(struct udp_inbox *inbox);

#endif
