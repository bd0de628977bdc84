/* SPDX-License-Identifier: BSD-2-Clause */
#include "execute/copies.h"

#include <stdatomic.h>
#include <string.h>

#include "base/block_pool.h"
#include "base/check.h"

static struct block_pool pool = BLOCK_POOL_INITIALIZER(sizeof(struct copies));
static _Atomic unsigned tables; /* relaxed: only their number matters */

void copies_reset_after_fork(void)
{
	tables = 0; /* inherited QPs are dead, and give nothing back */
	block_pool_reset_after_fork(&pool);
}

void copies_start(struct copies **copies, uint32_t mtu)
{
	if (*copies)
		return;
	if (atomic_fetch_add_explicit(&tables, 1, memory_order_relaxed) < COPIES_PROCESS_MAX)
		*copies = block_pool_get(&pool);
	if (!*copies) {
		atomic_fetch_sub_explicit(&tables, 1, memory_order_relaxed);
		return;
	}
	(*copies)->mtu = mtu;
	(*copies)->head = (*copies)->tail = 0;
	(*copies)->from = (*copies)->until = 0;
}

void copies_fini(struct copies **copies)
{
	if (!*copies)
		return;
	block_pool_put(&pool, *copies);
	*copies = NULL;
	atomic_fetch_sub_explicit(&tables, 1, memory_order_relaxed);
}

static bool is_empty(const struct copies *copies)
{
	return copies->head == copies->tail;
}

static struct copied_read *at(struct copies *copies, uint32_t i)
{
	return &copies->reads[i % COPIES_PSNS];
}

static void drop_oldest_packet(struct copies *copies)
{
	struct copied_read *read = at(copies, copies->head);
	uint32_t bytes = read->bytes < copies->mtu ? read->bytes : copies->mtu;

	read->psn = psn_add(read->psn, 1);
	read->va += bytes;
	read->bytes -= bytes;
	copies->from += bytes;
	if (psn_equal(read->psn, read->end))
		copies->head++;
}

void copies_drop(struct copies *copies, psn_t psn)
{
	while (copies && !is_empty(copies)) {
		struct copied_read *read = at(copies, copies->tail - 1);
		uint32_t left = psn_after(psn, read->psn)
					? (uint32_t)psn_diff(psn, read->psn) * copies->mtu
					: 0;

		if (!psn_after(read->end, psn))
			return;
		copies->until -= read->bytes - left;
		read->bytes = left;
		read->end = psn;
		if (left)
			return;
		copies->tail--;
	}
}

/* The distance of PSNs as an unsigned number: what is older than 2^23 PSNs goes as well. */
static bool has_room(const struct copies *copies, psn_t end, uint32_t bytes)
{
	const struct copied_read *oldest = &copies->reads[copies->head % COPIES_PSNS];

	return (uint32_t)psn_diff(end, oldest->psn) <= COPIES_PSNS &&
	       copies->until + bytes - copies->from <= COPIES_BYTES;
}

/* Of these bytes so many are before the ring's end; *start: where the first one is. */
static uint32_t straight_bytes(uint64_t number, uint32_t bytes, uint32_t *start)
{
	*start = (uint32_t)(number % COPIES_BYTES);
	return COPIES_BYTES - *start < bytes ? COPIES_BYTES - *start : bytes;
}

void copies_add(struct copies *copies, const struct copied_read *part, bool first,
		const uint8_t *payload)
{
	struct copied_read *last;
	uint32_t start, straight;

	copies_drop(copies, part->psn);
	while (!is_empty(copies) && !has_room(copies, part->end, part->bytes))
		drop_oldest_packet(copies);
	straight = straight_bytes(copies->until, part->bytes, &start);
	if (part->bytes) {
		memcpy(copies->bytes + start, payload, straight);
		memcpy(copies->bytes, payload + straight, part->bytes - straight);
	}
	copies->until += part->bytes;
	last = at(copies, copies->tail - 1);
	if (first || is_empty(copies) || !psn_equal(last->end, part->psn) ||
	    last->rkey != part->rkey || last->va + last->bytes != part->va) {
		*at(copies, copies->tail++) = *part;
		return;
	}
	last->end = part->end;
	last->bytes += part->bytes;
}

/*
 * The number of the part's first byte; false: it is not there. All packets but the last of a READ
 * are whole, and an empty READ has an empty packet.
 */
static bool find(const struct copies *copies, const struct copied_read *part, uint64_t *number)
{
	uint64_t from = copies ? copies->until : 0;

	for (uint32_t i = copies ? copies->tail : 0; copies && i != copies->head; i--) {
		const struct copied_read *read = &copies->reads[(i - 1) % COPIES_PSNS];
		uint64_t offset, end;

		from -= read->bytes;
		if (psn_before(part->psn, read->psn) || !psn_before(part->psn, read->end))
			continue;
		offset = (uint64_t)psn_diff(part->psn, read->psn) * copies->mtu;
		end = offset + part->bytes;
		*number = from + offset;
		return part->rkey == read->rkey && part->va == read->va + offset &&
		       !psn_after(part->end, read->end) &&
		       (end == read->bytes ||
			(part->bytes && part->bytes % copies->mtu == 0 && end < read->bytes));
	}
	return false;
}

bool copies_have(const struct copies *copies, const struct copied_read *part)
{
	uint64_t number;

	return find(copies, part, &number);
}

bool copies_get(const struct copies *copies, const struct copied_read *part, uint8_t *to)
{
	uint32_t start, straight;
	uint64_t number;

	if (!find(copies, part, &number))
		return false;
	straight = straight_bytes(number, part->bytes, &start);
	if (part->bytes) {
		memcpy(to, copies->bytes + start, straight);
		memcpy(to + straight, copies->bytes, part->bytes - straight);
	}
	return true;
}

#ifdef VERBATIM_CHECK
/*
 * A responder's copies, between two packets:
 * - PSNs rise, over no more than COPIES_PSNS;
 * - each READ has the bytes of its packets, the last of which may be short;
 * - all together fit into the ring.
 */
void copies_check(const struct copies *copies, uint32_t qpn)
{
	const struct copied_read *before = NULL;
	uint64_t bytes = 0;

	if (!copies || !check_sometimes(64))
		return;
	for (uint32_t i = copies->head; i != copies->tail; i++) {
		const struct copied_read *read = &copies->reads[i % COPIES_PSNS];
		uint32_t packets = (uint32_t)psn_diff(read->end, read->psn);

		INVARIANT(packets && packets <= COPIES_PSNS &&
				  read->bytes <= packets * copies->mtu &&
				  read->bytes + copies->mtu >= packets * copies->mtu,
			  "QP 0x%06x: PSNs %06x to %06x, %u bytes", qpn, read->psn.number,
			  read->end.number, read->bytes);
		INVARIANT(!before || !psn_before(read->psn, before->end),
			  "QP 0x%06x: PSN %06x behind %06x", qpn, read->psn.number,
			  before->end.number);
		bytes += read->bytes;
		before = read;
	}
	INVARIANT(bytes == copies->until - copies->from && bytes <= COPIES_BYTES,
		  "QP 0x%06x: %llu bytes, from %llu to %llu", qpn, (unsigned long long)bytes,
		  (unsigned long long)copies->from, (unsigned long long)copies->until);
}
#endif
