/* SPDX-License-Identifier: BSD-2-Clause */
#include "packet/kept.h"

#include <stdatomic.h>
#include <string.h>

#include "base/block_pool.h"
#include "base/check.h"

/* Bytes of all QPs; relaxed, as only the sum matters. */
static _Atomic uint64_t process_bytes;

_Static_assert(sizeof(struct kept_packet) <= KEPT_PACKET_EXTRA, "the other end counts on it");

/* By their payloads; the last one takes all there can be. */
static struct block_pool pools[] = {
	BLOCK_POOL_INITIALIZER(sizeof(struct kept_packet) + 256),
	BLOCK_POOL_INITIALIZER(sizeof(struct kept_packet) + 1024),
	BLOCK_POOL_INITIALIZER(sizeof(struct kept_packet) + 4096),
};
static struct block_pool tables = BLOCK_POOL_INITIALIZER(sizeof(struct kept));

static struct block_pool *pool_for(uint32_t bytes)
{
	unsigned i = 0;

	while (i + 1 < sizeof(pools) / sizeof(*pools) && pools[i].bytes < bytes)
		i++;
	return &pools[i];
}

void kept_reset_after_fork(void)
{
	process_bytes = 0; /* inherited QPs are dead, and give nothing back */
	for (unsigned i = 0; i < sizeof(pools) / sizeof(*pools); i++)
		block_pool_reset_after_fork(&pools[i]);
	block_pool_reset_after_fork(&tables);
}

static uint32_t size_of(const struct packet *packet)
{
	return (uint32_t)sizeof(struct kept_packet) + packet->payload_bytes;
}

bool kept_has(const struct kept *kept, psn_t psn)
{
	const struct kept_packet *packet = kept ? kept->packets[psn.number % KEPT_PSNS] : NULL;

	return packet && psn_equal(packet->packet.psn, psn);
}

static void discharge(size_t bytes)
{
	atomic_fetch_sub_explicit(&process_bytes, bytes, memory_order_relaxed);
}

static bool charge(size_t bytes)
{
	if (atomic_fetch_add_explicit(&process_bytes, bytes, memory_order_relaxed) + bytes <=
	    KEPT_PROCESS_BYTES_MAX)
		return true;
	discharge(bytes);
	return false;
}

/* As many as there is room and memory for. */
static uint32_t get_blocks(struct block_pool *pool, void **blocks, uint32_t count)
{
	uint32_t got;

	if (!charge(count * pool->bytes)) {
		if (count == 1 || !charge(pool->bytes))
			return 0;
		count = 1;
	}
	got = block_pool_get_many(pool, blocks, count);
	if (got < count)
		discharge((count - got) * pool->bytes);
	return got;
}

static void put_blocks(struct block_pool *pool, void **blocks, uint32_t count)
{
	discharge(count * pool->bytes);
	block_pool_put_many(pool, blocks, count);
}

/* A table's spare blocks, if they have this size, or are to have it from now on. */
static bool has_spares_of(struct kept *table, const struct block_pool *pool)
{
	if (!table->spares)
		table->spare_bytes = (uint32_t)pool->bytes;
	return table->spare_bytes == pool->bytes;
}

static void *get_block(struct kept *table, struct block_pool *pool)
{
	void *block;

	if (!table || !has_spares_of(table, pool))
		return get_blocks(pool, &block, 1) ? block : NULL;
	if (!table->spares)
		table->spares = get_blocks(pool, table->spare, table->count ? KEPT_SPARES / 2 : 1);
	return table->spares ? table->spare[--table->spares] : NULL;
}

static void put_spares(struct kept *table, uint32_t left)
{
	if (table->spares > left)
		put_blocks(pool_for(table->spare_bytes), table->spare + left, table->spares - left);
	table->spares = left;
}

static struct kept_packet *copy(struct kept *table, const struct packet *packet)
{
	struct block_pool *pool = pool_for(size_of(packet));
	struct kept_packet *kept = NULL;

	if (size_of(packet) <= pool->bytes)
		kept = get_block(table, pool);
	if (!kept)
		return NULL;
	packet_copy(&kept->packet, packet);
	kept->packet.payload = kept->bytes;
	if (packet->payload_bytes)
		memcpy(kept->bytes, packet->payload, packet->payload_bytes);
	return kept;
}

struct kept_packet *kept_copy(const struct packet *packet)
{
	return copy(NULL, packet);
}

static struct kept *make_table(void)
{
	struct kept *kept = block_pool_get(&tables);

	if (kept)
		memset(kept, 0, sizeof(*kept));
	return kept;
}

bool kept_add(struct kept **table, psn_t expected, const struct packet *packet)
{
	struct kept *kept;
	struct kept_packet **at;

	if (psn_diff(packet->psn, expected) >= KEPT_PSNS)
		return false;
	if (!*table)
		*table = make_table();
	kept = *table;
	if (!kept || kept->bytes + size_of(packet) > KEPT_BYTES_MAX)
		return false;
	at = &kept->packets[packet->psn.number % KEPT_PSNS];
	if (*at)
		return false;
	*at = copy(kept, packet);
	if (!*at)
		return false;
	if (!kept->count++ || psn_after(packet->psn, kept->last))
		kept->last = packet->psn;
	kept->bytes += size_of(packet);
	return true;
}

struct kept_packet *kept_take(struct kept *kept, psn_t psn)
{
	struct kept_packet *packet;

	if (!kept_has(kept, psn))
		return NULL;
	packet = kept->packets[psn.number % KEPT_PSNS];
	kept->packets[psn.number % KEPT_PSNS] = NULL;
	kept->count--;
	kept->bytes -= size_of(&packet->packet);
	return packet;
}

void kept_free(struct kept *kept, struct kept_packet *packet)
{
	struct block_pool *pool = pool_for(size_of(&packet->packet));
	void *block = packet;

	if (!kept || !has_spares_of(kept, pool)) {
		put_blocks(pool, &block, 1);
	} else {
		if (kept->spares == KEPT_SPARES)
			put_spares(kept, KEPT_SPARES / 2);
		kept->spare[kept->spares++] = block;
	}
	if (kept && !kept->count)
		put_spares(kept, 0);
}

void kept_drop(struct kept *kept, psn_t from, psn_t to)
{
	for (unsigned i = 0; i < KEPT_PSNS && psn_before(from, to) && kept_any(kept); i++) {
		struct kept_packet *packet = kept_take(kept, from);

		if (packet)
			kept_free(kept, packet);
		from = psn_add(from, 1);
	}
}

void kept_drop_all(struct kept *kept)
{
	for (unsigned i = 0; i < KEPT_PSNS && kept_any(kept); i++) {
		struct kept_packet *packet = kept->packets[i];

		if (packet)
			kept_free(kept, kept_take(kept, packet->packet.psn));
	}
}

void kept_fini(struct kept **kept)
{
	kept_drop_all(*kept);
	if (*kept) {
		put_spares(*kept, 0); /* its last packet may be out to be executed */
		block_pool_put(&tables, *kept);
	}
	*kept = NULL;
}

#ifdef VERBATIM_CHECK
/*
 * A table, between two packets:
 * - all are behind the expected PSN, and that one is none of them;
 * - each is at the place of its PSN, and the last one's is not before any;
 * - their number and bytes are as counted, and within the limits;
 * - spare blocks are there for packets that are kept.
 */
void kept_check(const struct kept *kept, psn_t expected, uint32_t qpn)
{
	uint32_t count = 0, bytes = 0;

	if (!kept)
		return;
	INVARIANT(kept->bytes <= KEPT_BYTES_MAX && kept->count <= KEPT_PSNS,
		  "QP 0x%06x: %u packets, %u bytes", qpn, kept->count, kept->bytes);
	INVARIANT(kept->spares <= (kept->count ? KEPT_SPARES : 0),
		  "QP 0x%06x: %u packets, %u spares", qpn, kept->count, kept->spares);
	if (!check_sometimes(64))
		return;
	for (unsigned i = 0; i < KEPT_PSNS; i++) {
		const struct kept_packet *packet = kept->packets[i];

		if (!packet)
			continue;
		count++;
		bytes += size_of(&packet->packet);
		INVARIANT(packet->packet.psn.number % KEPT_PSNS == i &&
				  psn_after(packet->packet.psn, expected) &&
				  !psn_after(packet->packet.psn, kept->last),
			  "QP 0x%06x: PSN %06x at %u, expected %06x, last %06x", qpn,
			  packet->packet.psn.number, i, expected.number, kept->last.number);
	}
	INVARIANT(count == kept->count && bytes == kept->bytes,
		  "QP 0x%06x: %u packets of %u bytes, counted %u of %u", qpn, count, bytes,
		  kept->count, kept->bytes);
}
#endif
