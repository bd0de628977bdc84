/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/rendezvous.h"

#include <string.h>

#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/migrate.h"

/* A record costs about as much as this copy. */
#define PIECE_MIN (8 * 1024)

/* The SGE that holds the message's byte at *offset, which becomes an offset in it. */
static const struct ibv_sge *find_sge(const struct wqe *wqe, uint32_t *offset)
{
	for (uint32_t i = 0; i < wqe->num_sge; i++) {
		if (*offset < wqe->sge[i].length)
			return &wqe->sge[i];
		*offset -= wqe->sge[i].length;
	}
	return NULL;
}

static bool may_offer(const struct shm_qp *lq, const struct wqe *wqe)
{
	const struct link *link = lq->link;

	return wqe->length >= RENDEZVOUS_MIN && lq->qp->type == IBV_QPT_RC && !lq->by_ring &&
	       (opcode_operation(wqe->opcode) == OPERATION_SEND || opcodes[wqe->opcode].has_imm) &&
	       !(wqe->flags & IBV_SEND_INLINE) && link->xcopy != XCOPY_SELF &&
	       (link->xcopy != XCOPY_NONE || link->xcopy_error);
}

bool rendezvous_offer(const struct shm_qp *lq, const struct wqe *wqe, struct record_source *source,
		      uint32_t *bytes)
{
	uint32_t at = wqe->done, flags;
	const struct ibv_sge *sge = may_offer(lq, wqe) ? find_sge(wqe, &at) : NULL;
	const struct arena_key *entry;
	size_t alike;
	uint64_t host, place;

	if (!sge)
		return false;
	alike = sge->length - at;
	if (key_check(key_table(), sge->lkey, lq->qp->pd->number, 0, sge->addr + at, alike, 0,
		      &host, &flags) != KEY_OK ||
	    flags & (KEY_NULL | KEY_MOVING | KEY_ON_DEMAND))
		return false;
	entry = &key_table()[KEY_INDEX(sge->lkey)];
	place = heap_place(entry, host, &alike);
	if (alike > HEAP_WINDOW_BYTES - place % HEAP_WINDOW_BYTES)
		alike = HEAP_WINDOW_BYTES - place % HEAP_WINDOW_BYTES;
	if (!place && !at && !entry->heap && !(flags & KEY_STAYS))
		migrate_want(sge->lkey, entry->length, alike);
	if (!place || alike < PIECE_MIN) {
		if (*bytes > alike)
			*bytes = (uint32_t)alike;
		return false;
	}
	if (*bytes > alike)
		*bytes = (uint32_t)alike;
	if (*bytes > RENDEZVOUS_PIECE)
		*bytes = RENDEZVOUS_PIECE;
	*source = (struct record_source){
		.address = sge->addr + at,
		.key = sge->lkey,
		.bytes = *bytes,
		.generation =
			atomic_load_explicit(&lq->qp->entry->generation, memory_order_relaxed),
	};
	return true;
}

void rendezvous_on_sent(struct shm_qp *lq, const struct wqe *wqe)
{
	if (lq->by_ring && wqe->length >= RENDEZVOUS_MIN)
		lq->by_ring--;
}

void rendezvous_on_ack(struct shm_qp *lq, const struct wqe *wqe)
{
	if (wqe->route == ROUTE_FETCHED)
		lq->pause = 0;
}

void rendezvous_on_refusal(struct shm_qp *lq)
{
	if (!lq->pause)
		lq->pause = RENDEZVOUS_PAUSE;
	else if (lq->pause < RENDEZVOUS_PAUSE_MAX)
		lq->pause *= 2;
	lq->by_ring = lq->pause;
}

/*
 * Its requests are under way: since the record was sent none of them was completed with an error,
 * nor removed by a reset. The generation is loaded after the state, as it is stored before a new
 * one: in the state of a later connection it is another.
 */
static bool is_sending(const struct payload *payload)
{
	const struct arena_qp *requester = payload->requester;
	uint32_t word = atomic_load_explicit(&requester->word, memory_order_acquire);
	uint32_t state = ARENA_QP_STATE(word);

	return (state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
	       atomic_load_explicit(&requester->generation, memory_order_relaxed) ==
		       payload->generation;
}

/* The source, mapped here; NULL: it is not all in the heap, or may not be used. */
static const void *find_source(const struct shm_qp *lq, struct link *link,
			       const struct payload *payload, const struct record_source *source)
{
	const struct arena_key *entry = peer_arena_key(&link->arena, KEY_INDEX(source->key));
	const struct arena_qp *requester = payload->requester;
	size_t bytes = source->bytes;
	uint64_t host, place;
	uint32_t flags;
	void *at;

	if (!is_sending(payload) || requester->dest_qpn != lq->qp->ib.qp_num ||
	    key_check_entry(entry, source->key, requester->pd, 0, source->address, bytes, 0, &host,
			    &flags) != KEY_OK ||
	    flags & (KEY_NULL | KEY_MOVING))
		return NULL;
	place = heap_place(entry, host, &bytes);
	at = place ? heap_map(&link->heap, place, &bytes) : NULL;
	return bytes == source->bytes ? at : NULL;
}

bool payload_open(const struct shm_qp *lq, struct link *link, const struct record_header *header,
		  const uint8_t *data, struct payload *payload)
{
	struct record_source source;

	*payload = (struct payload){ .at = data, .bytes = header->bytes };
	if (!record_is_by_key(header))
		return true;
	if (header->bytes < sizeof(source))
		return false;
	memcpy(&source, data, sizeof(source));
	atomic_signal_fence(memory_order_seq_cst); /* checks and uses the copy only */
	if (!source.bytes || source.bytes > RENDEZVOUS_PIECE ||
	    header->bytes < rendezvous_room(source.bytes))
		return false;
	payload->requester = peer_arena_qp(&link->arena, lq->qp->attr.dest_qp_num);
	payload->generation = source.generation;
	payload->bytes = source.bytes;
	payload->hazard = hazard_set(link->slot, source.key);
	payload->at = find_source(lq, link, payload, &source);
	if (payload->at) {
		link->fetched += source.bytes;
		shm_moved += source.bytes;
		return true;
	}
	payload_close(payload);
	return false;
}

bool payload_is_whole(const struct payload *payload)
{
	if (!payload->hazard)
		return true;
	/*
	 * A requester stores its QP's state before it completes requests with errors, and its
	 * generation and state before it removes them. The program reuses their memory after that.
	 * So if both are still good behind our loads, these were of the message (barrier SOURCE).
	 */
	atomic_thread_fence(memory_order_acquire);
	return is_sending(payload);
}

void payload_close(struct payload *payload)
{
	if (payload->hazard)
		hazard_clear(payload->hazard);
	payload->hazard = NULL;
}
