/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Burst - packets of one QP that leave in one call of roce_env.send.
 *
 * In:  headers; payload as pieces of the program's memory, or copied into the burst.
 * Out: packets on the wire; or how far it came.
 *
 * Bursts come from a pool, because they are large. A burst publishes at most one key
 * (memory/hazard.h) from burst_protect until it is sent, and of two that a thread has at once
 * (transmit_requests) one holds nothing but an acknowledgement: no thread waits for a hazard entry
 * on behalf of one burst while it holds another's. Callers hold the QP's lock.
 */
#ifndef ROCE_BURST_H
#define ROCE_BURST_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/packet.h"
#include "udp/wire.h"

#define BURST_STAGING (64 * 1024)
#define BURST_NO_END  UINT32_MAX

struct burst {
	struct burst *next; /* in the pool */
	const struct wire_flow *flow;
	unsigned count;
	uint32_t staged; /* bytes of `staging` in use */
	unsigned left;	 /* how many the last burst_send sent */
	struct {
		unsigned start, packets;
		uint32_t bytes;
		uint32_t size; /* of each packet, but for the last, which may be shorter, ... */
		unsigned full; /* ... and how many of that size make a full one */
		bool closed;   /* the last one is shorter */
	} batch;	       /* that the last packet leaves in: as udp/udp_send.c makes them */
	unsigned first_end;    /* the first packet that ends a message; BURST_NO_END */
	bool full;
	uint32_t key;
	struct arena_hazard *hazard; /* publishes `key`; or NULL */
	uint32_t psn[WIRE_BURST];
	struct wire_packet packets[WIRE_BURST];
	uint8_t staging[BURST_STAGING];
};

/* An empty one; NULL: out of memory. `flow` outlives it. */
struct burst *burst_get(const struct wire_flow *flow);

/* What was not sent is dropped. NULL is allowed. */
void burst_put(struct burst *burst);

/*
 * The next packet, without payload: it is in the burst once its header is there (burst_add).
 * There is room: see burst_is_full.
 */
static inline struct wire_packet *burst_next(struct burst *burst)
{
	return &burst->packets[burst->count];
}

/*
 * True: send it first. That is so before all room is used, too, if packets like the last ones would
 * make a GSO batch now that is full, and there is not room enough for another: each GSO batch costs
 * the same, whatever its length.
 */
static inline bool burst_is_full(const struct burst *burst)
{
	return burst->full;
}

/* Packets that may still be added; there may be less of them. */
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

/* The payload of the next packet is there; completes it. Sets header->pad. */
void burst_add(struct burst *burst, struct packet *header);

/* The last packet ends a message: the receiver may tell its program of it. */
void burst_end_message(struct burst *burst);

/*
 * Messages end in the GSO batch of the last packet only, in which one more packet of so many bytes,
 * all headers counted, would leave.
 */
bool burst_ends_in_last_batch(const struct burst *burst, uint32_t bytes);

/*
 * At most so many packets more like the last one, with the PSNs behind its, none of which asks for
 * an acknowledgement. Their payload lies behind its payload, which is one piece. Returns how many
 * were added before the burst was full.
 */
unsigned burst_repeat(struct burst *burst, unsigned most);

/*
 * Sends all. The burst is empty afterwards, and its key withdrawn. Unless all left, *unsent is the
 * PSN of the first that did not.
 */
enum wire_result burst_send(struct burst *burst, uint32_t *unsent);

void burst_reset_after_fork(void);

/* base/check.h */
void burst_check(const struct burst *burst);

#endif
