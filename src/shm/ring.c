/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/ring.h"

#include <sys/mman.h>

#include "base/page.h"

_Static_assert(RING_BYTES % PAGE_BYTES_MAX == 0, "its beginning follows it");
/* with the word after it */
_Static_assert(RECORD_BYTES_MAX + RECORD_UNIT <= RING_OVERLAP_BYTES, "a record is contiguous");

#define MAPPED_BYTES (RING_BYTES + RING_OVERLAP_BYTES)

/* The word of the next record: no record, and not the 0 that stands for none yet. */
static void spoil(struct ring_producer *ring, uint64_t at)
{
	struct record *record = (struct record *)(ring->data + at % RING_BYTES);

	__atomic_store_n(&record->header.word, UINT32_MAX, __ATOMIC_RELEASE);
}

bool ring_has_head(const struct ring_producer *ring)
{
	uint64_t head = atomic_load_explicit(&ring->control->head, memory_order_acquire);

	return ring->tail - head <= RING_BYTES && head % RECORD_UNIT == 0;
}

/*
 * Goes from one record that was not consumed to the next, by sizes that the other process could
 * have changed, as it could the head. False: they do not lead to the last one's end.
 */
static bool visit(struct ring_producer *ring, void (*each)(struct ring_producer *ring, uint64_t at))
{
	uint64_t at = atomic_load_explicit(&ring->control->head, memory_order_acquire);

	if (ring->tail - at > RING_BYTES || at % RECORD_UNIT)
		return false;
	while (at < ring->tail) {
		const struct record *record = (struct record *)(ring->data + at % RING_BYTES);
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
	const struct record *next = (struct record *)(ring->data + ring->tail % RING_BYTES);

	return visit(ring, pass) && !__atomic_load_n(&next->header.word, __ATOMIC_RELAXED);
}

void ring_break(struct ring_producer *ring)
{
	visit(ring, spoil);
	spoil(ring, ring->tail);
}

/* The range may pass the ring's end. */
static void give_back(char *data, uint64_t begin, uint64_t bytes)
{
	uint64_t at = begin % RING_BYTES;
	uint64_t first = bytes < RING_BYTES - at ? bytes : RING_BYTES - at;

	madvise(data + at, first, MADV_REMOVE);
	if (first < bytes)
		madvise(data, bytes - first, MADV_REMOVE);
}

void ring_give_back(struct ring_producer *ring)
{
	uint64_t head =
		atomic_load_explicit(&ring->control->head, memory_order_acquire); /* RING-2 */
	uint64_t page = page_bytes();
	uint64_t begin = page_round_up(ring->tail + RECORD_UNIT);
	uint64_t end = (head + RING_BYTES) & ~(page - 1);

	if (ring->tail - head < RING_RELEASE_BYTES + RECORD_BYTES_MAX)
		ring->given = ring->tail;
	/* whatever the other end stores: [tail, tail + RING_BYTES) at most */
	if (ring->tail - head <= RING_BYTES && begin < end)
		give_back(ring->data, begin, end - begin);
}

static bool map_at(char *place, size_t bytes, int fd, size_t offset)
{
	return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    (off_t)offset) != MAP_FAILED;
}

char *ring_map(int fd, size_t offset)
{
	char *area = mmap(NULL, MAPPED_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return area;
	if (map_at(area, RING_BYTES, fd, offset) &&
	    map_at(area + RING_BYTES, RING_OVERLAP_BYTES, fd, offset))
		return area;
	munmap(area, MAPPED_BYTES);
	return MAP_FAILED;
}

void ring_unmap(char *data)
{
	munmap(data, MAPPED_BYTES);
}
