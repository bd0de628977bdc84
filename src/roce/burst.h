/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Burst - packets of one QP that leave in one call of roce_env.send.
 *
 * In:  headers; payload as pieces of the program's memory, or copied into the burst.
 * Out: packets on the wire; or the first packet that was not sent.
 *
 * Bursts come from a pool, because they are large. A burst publishes at most one key
 * (memory/hazard.h) from burst_protect until it is sent. If a thread has two bursts at once
 * (transmit_requests), one has only an acknowledgement. So no thread waits for a second hazard
 * entry while it has one. Callers hold the QP's lock.
 */
#ifndef ROCE_BURST_H
#define ROCE_BURST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/psn.h"
#include "packet/packet.h"
#include "udp/wire.h"

#define BURST_STAGING (64 * 1024)
#define BURST_NO_END  UINT32_MAX

struct burst {
	const struct wire_flow *flow;
	unsigned count;
	uint32_t staged; /* bytes of `staging` in use */
	unsigned left;	 /* packets that the last burst_send sent */
	struct {
		unsigned start, packets;
		uint32_t bytes;
		uint32_t size; /* of each packet, except the last, which may be shorter */
		unsigned full; /* packets of that size in a full batch */
		bool closed;   /* the last one is shorter */
	} batch;	       /* the GSO batch of the last packet, as udp/udp_send.c makes them */
	unsigned first_end;    /* the first packet that ends a message; BURST_NO_END */
	bool full;
	uint32_t key;
	struct arena_hazard *hazard; /* publishes `key`; or NULL */
	psn_t psn[WIRE_BURST];
	struct wire_packet packets[WIRE_BURST];
	uint8_t staging[BURST_STAGING];
};

/* An empty one; NULL: out of memory. `flow` outlives it. */
struct burst *burst_get(const struct wire_flow *flow);

/* Drops unsent packets. NULL is allowed. */
void burst_put(struct burst *burst);

/*
 * The next packet, without payload; burst_add adds it to the burst. The caller has checked
 * burst_is_full.
 */
static inline struct wire_packet *burst_next(struct burst *burst)
{
	return &burst->packets[burst->count];
}

/*
 * True: send it first. Also before all room is used, if the last GSO batch is full, and the room
 * left is too small for another full one: each GSO batch costs the same, whatever its length.
 */
static inline bool burst_is_full(const struct burst *burst)
{
	return burst->full;
}

/* Packets that may still be added, at most. */
static inline unsigned burst_places(const struct burst *burst)
{
	return burst->full ? 0 : WIRE_BURST - burst->count;
}

static inline uint32_t burst_room(const struct burst *burst)
{
	return BURST_STAGING - burst->staged;
}

/* Room for a payload inside the burst, or NULL: send it first. At most BURST_STAGING bytes. */
void *burst_stage(struct burst *burst, uint32_t bytes);

/* Publishes the key. False: another one is published already; send first. */
bool burst_protect(struct burst *burst, uint32_t key);

/* No packet of the burst points at memory of its key. */
void burst_unprotect(struct burst *burst);

/* Adds the next packet, whose payload is set. Sets header->pad. */
void burst_add(struct burst *burst, struct packet *header);

/* The last packet ends a message, so the receiver's program may see a completion. */
void burst_end_message(struct burst *burst);

/*
 * All messages that end in the burst end in the last packet's GSO batch, which has room for one
 * more packet of so many bytes, headers included.
 */
bool burst_ends_in_last_batch(const struct burst *burst, uint32_t bytes);

/*
 * Adds at most so many packets like the last one, with the next PSNs, without AckReq. Their payload
 * follows the last one's in memory, which is one piece. Returns how many were added before the
 * burst was full.
 */
unsigned burst_repeat(struct burst *burst, unsigned most);

/*
 * Sends all. The burst is empty afterwards, and its hazard cleared. Unless all were sent, *unsent
 * is the PSN of the first that was not.
 */
enum wire_result burst_send(struct burst *burst, psn_t *unsent);

/* At the first context: maps what bursts need at first. */
void burst_prepare(void);
void burst_reset_after_fork(void);

/* base/check.h */
void burst_check(const struct burst *burst);

#endif
