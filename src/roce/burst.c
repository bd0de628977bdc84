/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/burst.h"

#include <string.h>

#include "base/block_pool.h"
#include "base/check.h"
#include "memory/hazard.h"
#include "memory/memory.h"
#include "packet/icrc.h"
#include "roce/roce_env.h"

/* A burst is in use only within a call, so there are at most twice as many as threads. */
static struct block_pool pool = BLOCK_POOL_INITIALIZER(sizeof(struct burst));

void burst_unprotect(struct burst *burst)
{
	hazard_clear(burst->hazard);
	burst->hazard = NULL;
}

static void empty(struct burst *burst)
{
	if (burst->hazard)
		burst_unprotect(burst);
	burst->count = 0;
	burst->staged = 0;
	burst->first_end = BURST_NO_END;
	burst->full = false;
	burst->packets[0].pieces = 0;
	burst->packets[0].payload_bytes = 0;
}

struct burst *burst_get(const struct wire_flow *flow)
{
	struct burst *burst = block_pool_get(&pool);

	if (!burst)
		return NULL;
	burst->flow = flow;
	burst->hazard = NULL;
	empty(burst);
	return burst;
}

void burst_put(struct burst *burst)
{
	if (!burst)
		return;
	empty(burst);
	block_pool_put(&pool, burst);
}

void *burst_stage(struct burst *burst, uint32_t bytes)
{
	void *room = burst->staging + burst->staged;

	if (bytes > BURST_STAGING - burst->staged)
		return NULL;
	burst->staged += bytes;
	return room;
}

bool burst_protect(struct burst *burst, uint32_t key)
{
	if (burst->hazard)
		return burst->key == key;
	burst->key = key;
	burst->hazard = hazard_set(memory_slot(), key);
	return true;
}

static unsigned batch_of(uint32_t bytes)
{
	unsigned batch = WIRE_GSO_BYTES / bytes;

	return batch < WIRE_GSO_PACKETS ? batch : WIRE_GSO_PACKETS;
}

static bool takes_along(const struct burst *burst, uint32_t bytes)
{
	return burst->count && !burst->batch.closed && bytes <= burst->batch.size &&
	       burst->batch.packets < WIRE_GSO_PACKETS &&
	       burst->batch.bytes + bytes <= WIRE_GSO_BYTES;
}

bool burst_ends_in_last_batch(const struct burst *burst, uint32_t bytes)
{
	return burst->first_end != BURST_NO_END && burst->first_end >= burst->batch.start &&
	       takes_along(burst, bytes);
}

void burst_end_message(struct burst *burst)
{
	if (burst->first_end == BURST_NO_END)
		burst->first_end = burst->count - 1;
}

/* The next packet is complete. */
static void count(struct burst *burst, psn_t psn)
{
	const struct wire_packet *packet = burst_next(burst);
	uint32_t bytes =
		packet->header_bytes + packet->payload_bytes + packet->pad_bytes + ICRC_BYTES;
	unsigned left;

	if (takes_along(burst, bytes)) {
		burst->batch.closed = bytes < burst->batch.size;
		burst->batch.packets++;
		burst->batch.bytes += bytes;
	} else {
		if (!burst->count || bytes != burst->batch.size) {
			burst->batch.size = bytes;
			burst->batch.full = batch_of(bytes);
		}
		burst->batch.start = burst->count;
		burst->batch.packets = 1;
		burst->batch.bytes = bytes;
		burst->batch.closed = false;
	}
	burst->psn[burst->count++] = psn;
	left = WIRE_BURST - burst->count;
	burst->full = !left || (burst->batch.packets == burst->batch.full && !burst->batch.closed &&
				left < burst->batch.full);
}

void burst_add(struct burst *burst, struct packet *header)
{
	struct wire_packet *packet = burst_next(burst);

	header->pad = (uint8_t)(-packet->payload_bytes & 3);
	header->pkey = PACKET_PKEY;
	packet->pad_bytes = header->pad;
	packet->pinned = true; /* memory/memory.h: memory of ordinary regions is readable */
	packet->header_bytes = (uint16_t)packet_encode(header, packet->header);
	count(burst, header->psn);
	if (burst->full)
		return;
	burst_next(burst)->pieces = 0;
	burst_next(burst)->payload_bytes = 0;
}

unsigned burst_repeat(struct burst *burst, unsigned most)
{
	/* one for all: a copy of what was stored just before waits for those stores */
	const struct wire_packet *like = &burst->packets[burst->count - 1];
	char *payload = like->piece[0].iov_base;
	psn_t psn = burst->psn[burst->count - 1];
	unsigned added;

	for (added = 0; added < most && !burst->full; added++) {
		struct wire_packet *packet = burst_next(burst);

		psn = psn_add(psn, 1);
		memcpy(packet->header, like->header, like->header_bytes);
		packet_renumber(packet->header, psn);
		packet->header_bytes = like->header_bytes;
		packet->payload_bytes = like->payload_bytes;
		packet->pad_bytes = like->pad_bytes;
		packet->pinned = like->pinned;
		packet->pieces = 1;
		payload += like->payload_bytes;
		packet->piece[0] = (struct iovec){ payload, like->payload_bytes };
		count(burst, psn);
	}
	if (!burst->full) {
		burst_next(burst)->pieces = 0;
		burst_next(burst)->payload_bytes = 0;
	}
	return added;
}

enum wire_result burst_send(struct burst *burst, psn_t *unsent)
{
	enum wire_result result = WIRE_SENT;
	unsigned sent = 0;

	CHECK(burst_check(burst));
	if (burst->count)
		result = roce_env.send(burst->flow, burst->packets, burst->count, &sent);
	if (result != WIRE_SENT && sent == burst->count)
		result = WIRE_SENT;
	if (result != WIRE_SENT)
		*unsent = burst->psn[sent];
	burst->left = result == WIRE_SENT ? burst->count : sent;
	empty(burst);
	return result;
}

void burst_prepare(void)
{
	block_pool_prepare(&pool);
}

void burst_reset_after_fork(void)
{
	block_pool_reset_after_fork(&pool);
}

#ifdef VERBATIM_CHECK
static uint32_t bytes_of(const struct wire_packet *packet)
{
	return packet->header_bytes + packet->payload_bytes + packet->pad_bytes + ICRC_BYTES;
}

/*
 * A burst, before it leaves:
 * - packets and staged payloads are within their room;
 * - the last GSO batch ends with the last packet, and is within the kernel's limits;
 * - its packets are all of one size, except the last, which may be shorter and then closes it;
 * - its bytes are the sum of its packets;
 * - the first packet that ends a message is one of the burst.
 */
void burst_check(const struct burst *burst)
{
	unsigned start = burst->batch.start, packets = burst->batch.packets;
	uint32_t bytes = 0;

	INVARIANT(burst->count <= WIRE_BURST && burst->staged <= BURST_STAGING,
		  "%u packets, %u bytes staged", burst->count, burst->staged);
	if (!burst->count)
		return;
	INVARIANT(start + packets == burst->count && packets <= WIRE_GSO_PACKETS,
		  "GSO batch from %u on, %u packets, of %u", start, packets, burst->count);
	for (unsigned i = start; i < burst->count; i++) {
		uint32_t size = bytes_of(&burst->packets[i]);

		INVARIANT(i == burst->count - 1 ? (size < burst->batch.size) == burst->batch.closed
						: size == burst->batch.size,
			  "packet %u of %u: %u bytes, batch size %u, closed %d", i, burst->count,
			  size, burst->batch.size, burst->batch.closed);
		bytes += size;
	}
	INVARIANT(bytes == burst->batch.bytes && bytes <= WIRE_GSO_BYTES,
		  "GSO batch of %u bytes, counted %u", bytes, burst->batch.bytes);
	INVARIANT(burst->first_end == BURST_NO_END || burst->first_end < burst->count,
		  "end at %u of %u", burst->first_end, burst->count);
}
#endif
