/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/heap.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_file.h"
#include "memory/sparse.h"

/* An operation adds 64, and a copy of the region's length 256. */
#define WORTH_OPERATION 64
#define WORTH_LENGTH	256
#define WORTH_ENOUGH	1024
/* The owner is asked again after so much more. */
#define WORTH_AGAIN (4096 * WORTH_OPERATION)

void heap_init(struct heap *heap, int fd)
{
	struct stat st;

	heap->fd = -1;
	heap->bytes = 0;
	for (unsigned i = 0; i < HEAP_WINDOWS; i++)
		heap->windows[i] = NULL;
	for (unsigned i = 0; i < HEAP_WANTS; i++)
		heap->wants[i] = 0;
	if (fd < 0)
		return;
	if (fstat(fd, &st) || st.st_size < 0 || !memory_file_has_seals(fd, F_SEAL_SHRINK)) {
		close(fd);
		return;
	}
	heap->fd = fd;
	heap->bytes = (uint64_t)st.st_size;
}

static size_t window_bytes(const struct heap *heap, uint64_t window)
{
	uint64_t left = heap->bytes - window * HEAP_WINDOW_BYTES;

	return left < HEAP_WINDOW_BYTES ? left : HEAP_WINDOW_BYTES;
}

void heap_fini(struct heap *heap)
{
	for (unsigned i = 0; i < HEAP_WINDOWS; i++)
		if (heap->windows[i] && heap->windows[i] != MAP_FAILED)
			munmap(heap->windows[i], window_bytes(heap, i));
	heap_forget(heap);
}

void heap_forget(struct heap *heap)
{
	if (heap->fd >= 0)
		close(heap->fd);
	heap->fd = -1;
	heap->bytes = 0;
	for (unsigned i = 0; i < HEAP_WINDOWS; i++)
		heap->windows[i] = NULL;
}

/* /proc/self/maps shows neighbouring windows as one mapping, so only the start counts. */
bool heap_is_window(const struct heap *heap, uintptr_t start, uint64_t offset)
{
	uint64_t window = offset / HEAP_WINDOW_BYTES;
	const char *base = window < HEAP_WINDOWS ? heap->windows[window] : NULL;

	return base && base != MAP_FAILED && (uintptr_t)base + offset % HEAP_WINDOW_BYTES == start;
}

static char *map_window(struct heap *heap, uint64_t window)
{
	size_t bytes = window_bytes(heap, window);
	char *fresh =
		sparse_map(bytes, MAP_SHARED | MAP_NORESERVE, heap->fd, window * HEAP_WINDOW_BYTES);
	char *none = NULL;

	if (fresh != MAP_FAILED) {
		/* a child must not write there; a core file needs no memory of a peer */
		madvise(fresh, bytes, MADV_DONTFORK);
		madvise(fresh, bytes, MADV_DONTDUMP);
	}
	if (atomic_compare_exchange_strong(&heap->windows[window], &none, fresh))
		return fresh;
	if (fresh != MAP_FAILED)
		munmap(fresh, bytes);
	return none; /* another thread has mapped it */
}

char *heap_map(struct heap *heap, uint64_t offset, size_t *bytes)
{
	uint64_t window = offset / HEAP_WINDOW_BYTES;
	uint64_t begin = offset % HEAP_WINDOW_BYTES;
	char *base;

	if (window >= HEAP_WINDOWS || offset >= heap->bytes || *bytes > heap->bytes - offset)
		return NULL;
	base = atomic_load_explicit(&heap->windows[window], memory_order_acquire);
	if (!base)
		base = map_window(heap, window);
	if (base == MAP_FAILED)
		return NULL;
	if (*bytes > HEAP_WINDOW_BYTES - begin)
		*bytes = HEAP_WINDOW_BYTES - begin;
	return base + begin;
}

static void set_worth(struct heap *heap, uint32_t key, int64_t worth)
{
	atomic_store_explicit(&heap->wants[KEY_INDEX(key) % HEAP_WANTS],
			      (uint64_t)key << 32 | (uint32_t)(int32_t)worth, memory_order_relaxed);
}

bool heap_pays(struct heap *heap, uint32_t key, uint64_t length, size_t bytes)
{
	uint64_t seen = atomic_load_explicit(&heap->wants[KEY_INDEX(key) % HEAP_WANTS],
					     memory_order_relaxed);
	int64_t worth = seen >> 32 == key ? (int32_t)(uint32_t)seen : 0;

	if (heap->fd < 0 || length < HEAP_REGION_MIN)
		return false;
	if (bytes > length)
		bytes = length;
	worth += WORTH_OPERATION + (int64_t)(WORTH_LENGTH * (double)bytes / (double)length);
	if (worth > WORTH_ENOUGH)
		worth = WORTH_ENOUGH;
	set_worth(heap, key, worth);
	return worth == WORTH_ENOUGH;
}

void heap_asked(struct heap *heap, uint32_t key)
{
	set_worth(heap, key, -WORTH_AGAIN);
}
