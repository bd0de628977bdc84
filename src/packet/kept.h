/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kept - packets that arrived behind a missing one, until that one has come (selective repeat).
 *
 * In:  packets with PSNs after the expected one: requests of a responder, responses of a requester.
 * Out: the same packets, by PSN, once they are expected.
 *
 * No packet has an effect before its turn: then it is as if it had just arrived. So checks, data,
 * receives and completions keep the order of the PSNs (docs/design/transport.md).
 *
 * The packets are copies, as they outlive the receive buffer. They are bounded for each table and
 * for the process; what finds no room is dropped, and comes again. A table is guarded by the lock
 * of its QP, which callers hold. A QP that never misses a packet has none; the memory of packets
 * which were kept at one time is used again, for all QPs (base/block_pool.h).
 */
#ifndef PACKET_KEPT_H
#define PACKET_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/psn.h"
#include "packet/packet.h"

/* What an end keeps behind a gap, and the other end can count on. */
#define KEPT_PSNS      1024 /* behind the expected one; a power of 2 */
#define KEPT_BYTES_MAX (1024 * 1024)
/* Bytes of KEPT_BYTES_MAX that a packet takes beside its payload, at most. */
#define KEPT_PACKET_EXTRA 256

#define KEPT_PROCESS_BYTES_MAX (64 * 1024 * 1024)

struct kept_packet {
	struct packet packet;	      /* its payload is `bytes` */
	_Alignas(64) uint8_t bytes[]; /* memcpy to elsewhere in a cache line takes longer */
};

#define KEPT_SPARES 32

struct kept {
	uint32_t count, bytes;
	/*
	 * Blocks for the next packets, all of one size. A look brings tens of packets: to take each
	 * block from the process's pool would cost as much as to copy the packet. An empty table
	 * has none.
	 */
	uint32_t spares, spare_bytes;
	void *spare[KEPT_SPARES];
	psn_t last;				/* the highest PSN since there were none */
	struct kept_packet *packets[KEPT_PSNS]; /* by PSN, modulo KEPT_PSNS */
};

/* How many packets with this path MTU an end keeps. */
static inline uint32_t kept_most(uint32_t mtu)
{
	uint32_t packets = KEPT_BYTES_MAX / (mtu + KEPT_PACKET_EXTRA);

	return packets < KEPT_PSNS ? packets : KEPT_PSNS;
}

static inline bool kept_any(const struct kept *kept)
{
	return kept && kept->count;
}

/* The packet with this PSN is kept. NULL is an empty table here and below. */
bool kept_has(const struct kept *kept, psn_t psn);

/*
 * Keeps a copy in the table, which it makes if there is none. False: that PSN is kept already, or
 * there is no room.
 */
bool kept_add(struct kept **kept, psn_t expected, const struct packet *packet);

/* A copy that is in no table; NULL: no room. */
struct kept_packet *kept_copy(const struct packet *packet);

/* Takes the packet with this PSN, which the caller frees with kept_free; NULL: not kept. */
struct kept_packet *kept_take(struct kept *kept, psn_t psn);
/* To the spare blocks of a table, or to the pool if that is NULL. */
void kept_free(struct kept *kept, struct kept_packet *packet);

/* Drops those from `from` to before `to`. */
void kept_drop(struct kept *kept, psn_t from, psn_t to);

/* Drops all. */
void kept_drop_all(struct kept *kept);

/* Drops all, and frees the memory. */
void kept_fini(struct kept **kept);

void kept_reset_after_fork(void);

/* base/check.h */
void kept_check(const struct kept *kept, psn_t expected, uint32_t qpn);

#endif
