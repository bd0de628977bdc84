/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/ring.h"

#include <sys/mman.h>

#include "base/page.h"

_Static_assert(RING_BYTES_MIN % PAGE_BYTES_MAX == 0, "its beginning can be mapped behind its end");

/* The word of the next record: no record, and not the 0 that stands for none yet. */
static void spoil(struct ring_producer *ring, uint64_t at)
{
	struct record *record = ring_at(ring->data, ring->bytes, at);

	__atomic_store_n(&record->header.word, UINT32_MAX, __ATOMIC_RELEASE);
}

bool ring_has_head(const struct ring_producer *ring)
{
	uint64_t head = atomic_load_explicit(&ring->control->head, memory_order_acquire);

	return ring->tail - head <= ring->bytes && head % RECORD_UNIT == 0;
}

/*
 * Goes from one record that was not consumed to the next, by sizes that the other process could
 * have changed, as it could the head. False: they do not lead to the last one's end.
 */
static bool visit(struct ring_producer *ring, void (*each)(struct ring_producer *ring, uint64_t at))
{
	uint64_t at = atomic_load_explicit(&ring->control->head, memory_order_acquire);

	if (ring->tail - at > ring->bytes || at % RECORD_UNIT)
		return false;
	while (at < ring->tail) {
		const struct record *record = ring_at(ring->data, ring->bytes, at);
		struct record_header header = record->header;

		if (!record_is_sane(&header))
			return false;
		each(ring, at);
		at += record_size(&header);
	}
	return at == ring->tail;
}

void ring_refuse(struct ring_consumer *ring)
{
	atomic_store_explicit(&ring->control->head, UINT64_MAX, memory_order_release);
}

static void pass(struct ring_producer *ring, uint64_t at)
{
}

bool ring_is_whole(struct ring_producer *ring)
{
	const struct record *next = ring_at(ring->data, ring->bytes, ring->tail);

	return visit(ring, pass) && !__atomic_load_n(&next->header.word, __ATOMIC_RELAXED);
}

void ring_break(struct ring_producer *ring)
{
	visit(ring, spoil);
	spoil(ring, ring->tail);
}

/* The range may pass the ring's end. */
static void give_back(const struct ring_producer *ring, uint64_t begin, uint64_t bytes)
{
	uint64_t at = begin & (ring->bytes - 1);
	uint64_t first = bytes < ring->bytes - at ? bytes : ring->bytes - at;

	madvise(ring->data + at, first, MADV_REMOVE);
	if (first < bytes)
		madvise(ring->data, bytes - first, MADV_REMOVE);
}

void ring_give_back(struct ring_producer *ring)
{
	uint64_t head =
		atomic_load_explicit(&ring->control->head, memory_order_acquire); /* RING-2 */
	uint64_t page = page_bytes();
	uint64_t begin = page_round_up(ring->tail + RECORD_UNIT);
	uint64_t end = (head + ring->bytes) & ~(page - 1);

	if (ring->tail - head < RING_RELEASE_BYTES + RECORD_BYTES_MAX)
		ring->given = ring->tail;
	/* whatever the other end stores: [tail, tail + ring->bytes) at most */
	if (ring->tail - head <= ring->bytes && begin < end)
		give_back(ring, begin, end - begin);
}

/* Of the beginning, mapped once more: as long as a record, with the word after it. */
static uint64_t overlap_bytes(void)
{
	return page_round_up(RECORD_BYTES_MAX + RECORD_UNIT);
}

static bool map_at(char *place, size_t bytes, int fd, size_t offset)
{
	return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    (off_t)offset) != MAP_FAILED;
}

char *ring_map(int fd, size_t offset, uint64_t bytes)
{
	uint64_t all = bytes + overlap_bytes();
	char *area = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return area;
	if (map_at(area, bytes, fd, offset) && map_at(area + bytes, overlap_bytes(), fd, offset))
		return area;
	munmap(area, all);
	return MAP_FAILED;
}

void ring_unmap(char *data, uint64_t bytes)
{
	munmap(data, bytes + overlap_bytes());
}
