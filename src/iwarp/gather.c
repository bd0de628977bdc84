/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/gather.h"

#include <string.h>

#include "iwarp/bytes.h"
#include "iwarp/stage.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/memory.h"

#define SGES_MAX 4 /* pieces of payload in one FPDU; more are copied */
/* A header, the trailer of an FPDU, payload. */
#define PIECES_MAX (SGES_MAX + 2)

static const uint8_t trailer[FPDU_PAD_MAX + FPDU_CRC_BYTES];

/* Adds bytes of the burst's own memory, which is filled in order. */
static void add_own(struct gather *gather, size_t bytes)
{
	uint8_t *at = gather->own + gather->used;
	struct iovec *last = gather->count ? &gather->pieces[gather->count - 1] : NULL;

	gather->used += bytes;
	gather->bytes += bytes;
	if (last && (uint8_t *)last->iov_base + last->iov_len == at) {
		last->iov_len += bytes;
		return;
	}
	gather->pieces[gather->count++] = (struct iovec){ at, bytes };
}

static void add_header(struct gather *gather, const struct segment *segment, uint32_t payload)
{
	uint8_t *at = gather->own + gather->used;
	unsigned header = segment_encode(segment, at + FPDU_LENGTH_BYTES);

	put16(at, (uint16_t)(header + payload));
	add_own(gather, FPDU_LENGTH_BYTES + header);
}

static void add_copy(struct gather *gather, const void *from, size_t bytes)
{
	memcpy(gather->own + gather->used, from, bytes);
	add_own(gather, bytes);
}

/* Copies payload, with checks of its keys. */
static enum cause copy_payload(const struct iwarp_qp *iq, const struct payload *payload, void *to)
{
	const struct owed_response *response = payload->response;
	const struct wqe *wqe = payload->wqe;

	if (!payload->bytes)
		return CAUSE_NONE;
	if (response)
		return memory_read_remote(qp_peer(iq->qp), response->rkey,
					  response->address + payload->offset, to, payload->bytes);
	if (wqe && !wqe_data(wqe))
		return memory_gather(wqe->sge, wqe->num_sge, iq->qp->pd->number, payload->offset,
				     to, payload->bytes);
	memcpy(to, (wqe ? wqe_data(wqe) : payload->control) + payload->offset, payload->bytes);
	return CAUSE_NONE;
}

static enum gather_result stage(struct iwarp_qp *iq, const struct segment *segment,
				const struct payload *payload, enum cause *cause)
{
	uint32_t header = segment->tagged ? TAGGED_BYTES : UNTAGGED_BYTES;
	uint32_t ulpdu = header + payload->bytes;
	uint8_t *fpdu = stage_open(iq, ulpdu);

	if (!fpdu)
		return GATHER_FAILED;
	segment_encode(segment, fpdu + FPDU_LENGTH_BYTES);
	*cause = copy_payload(iq, payload, fpdu + FPDU_LENGTH_BYTES + header);
	if (*cause != CAUSE_NONE)
		return GATHER_BAD;
	stage_close(iq, fpdu, ulpdu);
	return GATHER_ADDED;
}

/* Publishes the key, unless the burst has a hazard on another one. */
static bool protect(struct gather *gather, uint32_t key)
{
	if (gather->hazard)
		return gather->key == key;
	gather->hazard = hazard_set(memory_slot(), key);
	gather->key = key;
	return true;
}

struct place {
	uint64_t host;
	uint32_t bytes;
};

/* Finds memory by its key: 1 with *host; 0: it has to be copied; -1 with a cause. */
static int find(const struct iwarp_qp *iq, uint32_t key, uint64_t address, uint32_t bytes,
		bool remote, uint64_t *host, enum cause *cause)
{
	const struct qp *qp = iq->qp;
	uint32_t flags;
	enum key_verdict verdict =
		key_check(key_table(), key, remote ? qp->remote_pd : qp->pd->number,
			  remote ? qp->ib.qp_num : 0, address, bytes,
			  remote ? IBV_ACCESS_REMOTE_READ : 0, host, &flags);

	if (verdict != KEY_OK) {
		*cause = remote ? key_cause_remote(verdict) : key_cause_local(verdict);
		return -1;
	}
	return flags & (KEY_NULL | KEY_IMPORTED) ? 0 : 1;
}

/* The pieces of the payload in place: how many; 0: copy it; -1: GATHER_FULL; -2: *cause. */
static int find_places(const struct iwarp_qp *iq, struct gather *gather,
		       const struct payload *payload, struct place *places, enum cause *cause)
{
	const struct wqe *wqe = payload->wqe;
	uint32_t offset = payload->offset, left = payload->bytes;
	int count = 0, found;

	if (payload->response) {
		if (!protect(gather, payload->response->rkey))
			return -1;
		places[0].bytes = left;
		found = find(iq, payload->response->rkey, payload->response->address + offset, left,
			     true, &places[0].host, cause);
		return found < 0 ? -2 : found;
	}
	for (uint32_t i = 0; left; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t n = sge->length;

		if (offset >= n) {
			offset -= n;
			continue;
		}
		n -= offset;
		if (n > left)
			n = left;
		if (count && gather->key != sge->lkey)
			return 0;
		if (!protect(gather, sge->lkey))
			return -1;
		if (count == SGES_MAX)
			return 0;
		found = find(iq, sge->lkey, sge->addr + offset, n, false, &places[count].host,
			     cause);
		if (found <= 0)
			return found < 0 ? -2 : 0;
		places[count++].bytes = n;
		left -= n;
		offset = 0;
	}
	return count;
}

static bool is_copied(const struct payload *payload)
{
	return payload->bytes <= GATHER_COPY_MAX || (payload->wqe && wqe_data(payload->wqe));
}

/* The FPDU is complete. */
static void add_trailer(struct iwarp_qp *iq, struct gather *gather, uint32_t ulpdu)
{
	add_copy(gather, trailer, fpdu_pad(ulpdu) + FPDU_CRC_BYTES);
	iq->sending.position += fpdu_bytes(ulpdu);
}

/* An FPDU whose payload is in the burst's own memory. */
static enum gather_result add_short(struct iwarp_qp *iq, struct gather *gather,
				    const struct segment *segment, const struct payload *payload,
				    enum cause *cause)
{
	uint32_t header = FPDU_LENGTH_BYTES + (segment->tagged ? TAGGED_BYTES : UNTAGGED_BYTES);

	*cause = copy_payload(iq, payload, gather->own + gather->used + header);
	if (*cause != CAUSE_NONE)
		return GATHER_BAD;
	add_header(gather, segment, payload->bytes);
	if (payload->bytes)
		add_own(gather, payload->bytes);
	add_trailer(iq, gather, header - FPDU_LENGTH_BYTES + payload->bytes);
	return GATHER_ADDED;
}

enum gather_result gather_add(struct iwarp_qp *iq, struct gather *gather,
			      const struct segment *segment, const struct payload *payload,
			      enum cause *cause)
{
	uint32_t own = FPDU_LENGTH_BYTES + UNTAGGED_BYTES + sizeof(trailer);
	bool copied = is_copied(payload);
	struct place places[SGES_MAX];
	int count;

	*cause = CAUSE_NONE;
	if (stage_has_all(iq))
		return stage_bytes(&iq->stage) >= GATHER_BYTES_MAX
			       ? GATHER_FULL
			       : stage(iq, segment, payload, cause);
	if (copied)
		own += payload->bytes;
	if (gather->used + own > GATHER_OWN_BYTES ||
	    gather->count + PIECES_MAX > IWARP_SEND_PIECES || gather->bytes >= GATHER_BYTES_MAX)
		return GATHER_FULL;
	if (copied)
		return add_short(iq, gather, segment, payload, cause);
	count = find_places(iq, gather, payload, places, cause);
	if (count == -2)
		return GATHER_BAD;
	if (count < 0 || (!count && !gather_is_empty(gather)))
		return GATHER_FULL;
	if (!count) {
		gather_fini(gather); /* of the first SGEs; the copy has hazards of its own */
		return stage(iq, segment, payload, cause);
	}
	add_header(gather, segment, payload->bytes);
	for (int i = 0; i < count; i++) {
		gather->pieces[gather->count++] =
			(struct iovec){ (void *)(uintptr_t)places[i].host, places[i].bytes };
		gather->bytes += places[i].bytes;
	}
	add_trailer(iq, gather, (segment->tagged ? TAGGED_BYTES : UNTAGGED_BYTES) + payload->bytes);
	return GATHER_ADDED;
}

/* Stages all after the first `sent` bytes. The program's memory may be bad: the kernel copies. */
static void stage_rest(struct iwarp_qp *iq, const struct gather *gather, size_t sent)
{
	uint8_t *to = stage_reserve(&iq->stage, gather->bytes - sent);

	if (!to) {
		iq->sending.broken = true;
		return;
	}
	for (int i = 0; i < gather->count; i++) {
		const uint8_t *from = gather->pieces[i].iov_base;
		size_t n = gather->pieces[i].iov_len;

		if (sent >= n) {
			sent -= n;
			continue;
		}
		if (memory_copy_from(to, (uintptr_t)from + sent, n - sent)) {
			cause_report(CAUSE_MEMORY_FAULT_LOCAL, iq->qp->ib.qp_num, NULL);
			iq->sending.broken = true;
			return;
		}
		to += n - sent;
		iq->stage.tail += n - sent;
		sent = 0;
	}
}

void gather_send(struct iwarp_qp *iq, struct gather *gather, bool more)
{
	if (gather->count) {
		ssize_t n = iwarp_env.send(iq->stream, gather->pieces, gather->count, more);

		if (n < 0) {
			iq->sending.broken = true;
		} else if ((size_t)n < gather->bytes) {
			iq->sending.blocked = true;
			stage_rest(iq, gather, (size_t)n);
		}
	}
	if (gather->hazard)
		hazard_clear(gather->hazard);
	gather_init(gather);
}
