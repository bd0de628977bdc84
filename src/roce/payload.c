/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/payload.h"

#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"

/* The index of the SGE at `offset` of the list. Changes `offset` to the offset in that SGE. */
static uint32_t find_sge(const struct wqe *wqe, uint32_t *offset)
{
	uint32_t i = 0;

	while (i < wqe->num_sge && *offset >= wqe->sge[i].length)
		*offset -= wqe->sge[i++].length;
	return i;
}

/* Whether the range is in one region, and in at most WIRE_PIECES pieces. */
static bool is_simple(const struct wqe *wqe, uint32_t first, uint32_t offset, uint32_t bytes)
{
	uint32_t covered = 0;

	for (uint32_t i = first; i < wqe->num_sge && i - first < WIRE_PIECES; i++) {
		if (wqe->sge[i].lkey != wqe->sge[first].lkey)
			return false;
		covered += wqe->sge[i].length - (i == first ? offset : 0);
		if (covered >= bytes)
			return true;
	}
	return false;
}

/*
 * Points the packet at the program's memory; the burst has set the hazard of the key. False: *cause
 * tells why not, or is CAUSE_NONE if the payload has to be copied.
 */
static bool point_at_sges(struct wire_packet *packet, const struct qp *qp, const struct wqe *wqe,
			  uint32_t first, uint32_t offset, uint32_t bytes, enum cause *cause)
{
	packet->pieces = 0;
	for (uint32_t i = first; bytes; i++, offset = 0) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t n = sge->length - offset < bytes ? sge->length - offset : bytes;
		enum key_verdict verdict;
		uint64_t host;
		uint32_t flags;

		if (!n)
			continue;
		verdict = key_check(key_table(), sge->lkey, qp->pd->number, 0, sge->addr + offset,
				    n, 0, &host, &flags);
		if (verdict != KEY_OK) {
			*cause = key_cause_local(verdict);
			return false;
		}
		if (flags & (KEY_NULL | KEY_ON_DEMAND))
			return false;
		packet->piece[packet->pieces++] = (struct iovec){ (void *)(uintptr_t)host, n };
		bytes -= n;
	}
	return true;
}

/*
 * Copies the payload into the burst's memory. The copy publishes a key of its own, so the burst
 * must not have one for packets before.
 */
static enum payload_result copy_to_burst(struct burst *burst, const struct qp *qp,
					 const struct wqe *wqe, uint32_t offset, uint32_t bytes,
					 enum cause *cause)
{
	struct wire_packet *packet = burst_next(burst);
	void *room;

	if (burst->hazard)
		return PAYLOAD_NO_ROOM;
	room = burst_stage(burst, bytes);
	if (!room)
		return PAYLOAD_NO_ROOM;
	*cause = memory_gather(wqe->sge, wqe->num_sge, qp->pd->number, offset, room, bytes);
	if (*cause != CAUSE_NONE)
		return PAYLOAD_BAD;
	packet->piece[0] = (struct iovec){ room, bytes };
	packet->pieces = 1;
	packet->payload_bytes = (uint16_t)bytes;
	return PAYLOAD_PLACED;
}

enum payload_result payload_place(struct burst *burst, const struct qp *qp, struct wqe *wqe,
				  uint32_t offset, uint32_t bytes, enum cause *cause)
{
	struct wire_packet *packet = burst_next(burst);
	const uint8_t *data = wqe_data(wqe);
	uint32_t in_sge = offset, first;
	bool protects;

	*cause = CAUSE_NONE;
	packet->pieces = 0;
	packet->payload_bytes = 0;
	if (!bytes)
		return PAYLOAD_PLACED;
	if (data) {
		packet->piece[0] = (struct iovec){ (uint8_t *)data + offset, bytes };
		packet->pieces = 1;
		packet->payload_bytes = (uint16_t)bytes;
		return PAYLOAD_PLACED;
	}
	if (burst->hazard && !burst->count)
		burst_unprotect(burst); /* of a packet that was not added */
	protects = burst->hazard != NULL;
	first = find_sge(wqe, &in_sge);
	if (!is_simple(wqe, first, in_sge, bytes))
		return copy_to_burst(burst, qp, wqe, offset, bytes, cause);
	if (!burst_protect(burst, wqe->sge[first].lkey))
		return PAYLOAD_NO_ROOM;
	if (point_at_sges(packet, qp, wqe, first, in_sge, bytes, cause)) {
		packet->payload_bytes = (uint16_t)bytes;
		return PAYLOAD_PLACED;
	}
	if (*cause != CAUSE_NONE)
		return PAYLOAD_BAD;
	if (!protects) /* the key is this packet's alone, which does not point at its memory */
		burst_unprotect(burst);
	return copy_to_burst(burst, qp, wqe, offset, bytes, cause);
}

uint32_t payload_contiguous(const struct burst *burst, const struct qp *qp, const struct wqe *wqe,
			    uint32_t offset, uint32_t bytes)
{
	const struct wire_packet *last = &burst->packets[burst->count - 1];
	uint32_t in_sge = offset, index, flags;
	const struct ibv_sge *sge;
	uint64_t host;

	if (wqe_data(wqe) || last->pieces != 1)
		return 0;
	index = find_sge(wqe, &in_sge);
	if (index == wqe->num_sge)
		return 0;
	sge = &wqe->sge[index];
	if (!burst->hazard || burst->key != sge->lkey)
		return 0;
	if (bytes > sge->length - in_sge)
		bytes = sge->length - in_sge;
	if (key_check(key_table(), sge->lkey, qp->pd->number, 0, sge->addr + in_sge, bytes, 0,
		      &host, &flags) != KEY_OK ||
	    flags & (KEY_NULL | KEY_ON_DEMAND) ||
	    host != (uintptr_t)last->piece[0].iov_base + last->payload_bytes)
		return 0;
	return bytes;
}
