/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cause.h"
#include "base/memory_file.h"
#include "memory/sparse.h"

/* An operation adds 64, and a copy of the region's length 256. */
#define WORTH_OPERATION 64
#define WORTH_LENGTH	256
#define WORTH_ENOUGH	1024
/* The owner is asked again after so much more. */
#define WORTH_AGAIN (4096 * WORTH_OPERATION)

static void empty(struct heap *heap)
{
	heap->fd = -1;
	heap->bytes = 0;
	for (unsigned i = 0; i < HEAP_WINDOWS; i++)
		heap->windows[i] = NULL;
	for (unsigned i = 0; i < HEAP_WANTS; i++)
		heap->wants[i] = 0;
}

/* The bytes of a file that cannot shrink and has some to map; else 0. */
static uint64_t usable_bytes(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= (off_t)HEAP_FIRST ||
	    !memory_file_has_seals(fd, F_SEAL_SHRINK))
		return 0;
	return (uint64_t)st.st_size;
}

static void report(int error)
{
	cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0, "addresses for migrated pages: %s",
				 strerror(-error));
}

/* False: it cannot be mapped; that is reported. */
static bool open_view(struct heap *heap, int fd)
{
	int error = file_view_open(&heap->view, fd, PROT_READ | PROT_WRITE);

	if (error) {
		report(error);
		return false;
	}
	/* a child must not write there; a core file needs no memory of a peer */
	file_view_advise(&heap->view, MADV_DONTFORK);
	file_view_advise(&heap->view, MADV_DONTDUMP);
	return true;
}

void heap_init(struct heap *heap, int fd)
{
	uint64_t bytes = usable_bytes(fd);

	empty(heap);
	if (bytes && open_view(heap, fd))
		heap->bytes = bytes;
	if (fd >= 0)
		close(fd);
}

void heap_init_own(struct heap *heap, int fd)
{
	empty(heap);
	heap->bytes = usable_bytes(fd);
	if (heap->bytes)
		heap->fd = fd;
	else if (fd >= 0)
		close(fd);
}

/* Bytes at the beginning of a window that are not mapped. */
static uint64_t lead_of(uint64_t window)
{
	return window ? 0 : HEAP_FIRST;
}

/* Those behind its lead. The file's last one may end within a page. */
static size_t window_bytes(const struct heap *heap, uint64_t window)
{
	uint64_t begin = window * HEAP_WINDOW_BYTES, end = begin + HEAP_WINDOW_BYTES;

	return (end < heap->bytes ? end : heap->bytes) - begin - lead_of(window);
}

void heap_fini(struct heap *heap)
{
	for (unsigned i = 0; i < HEAP_WINDOWS; i++)
		if (heap->windows[i] && heap->windows[i] != MAP_FAILED)
			munmap(heap->windows[i], window_bytes(heap, i));
	if (heap->bytes && heap->fd < 0)
		file_view_close(&heap->view);
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
	const char *at = window < HEAP_WINDOWS ? heap->windows[window] : NULL;

	return at && at != MAP_FAILED &&
	       (uintptr_t)at + offset % HEAP_WINDOW_BYTES - lead_of(window) == start;
}

/* A failure lasts: see heap.h. Not reported, as the program's threads may stand meanwhile. */
static void map_own_window(struct heap *heap, uint64_t window)
{
	size_t bytes = window_bytes(heap, window);
	char *none = NULL, *fresh = sparse_map(bytes, MAP_SHARED | MAP_NORESERVE, heap->fd,
					       window * HEAP_WINDOW_BYTES + lead_of(window));

	if (fresh != MAP_FAILED) {
		madvise(fresh, bytes, MADV_DONTFORK);
		madvise(fresh, bytes, MADV_DONTDUMP);
	}
	if (!atomic_compare_exchange_strong(&heap->windows[window], &none, fresh) &&
	    fresh != MAP_FAILED)
		munmap(fresh, bytes); /* another thread has mapped it */
}

/* NULL: it cannot be mapped. */
static char *map_window(struct heap *heap, uint64_t window)
{
	char *_Atomic *place = &heap->windows[window];
	int error = 0;

	if (heap->fd >= 0)
		map_own_window(heap, window);
	else
		error = file_view_map(&heap->view, place,
				      window * HEAP_WINDOW_BYTES + lead_of(window),
				      window_bytes(heap, window));
	if (error && error != -EALREADY)
		report(error);
	return atomic_load_explicit(place, memory_order_acquire);
}

char *heap_map(struct heap *heap, uint64_t offset, size_t *bytes)
{
	uint64_t window = offset / HEAP_WINDOW_BYTES;
	uint64_t begin = offset % HEAP_WINDOW_BYTES;
	char *at;

	if (window >= HEAP_WINDOWS || offset < HEAP_FIRST || offset >= heap->bytes ||
	    *bytes > heap->bytes - offset)
		return NULL;
	at = atomic_load_explicit(&heap->windows[window], memory_order_acquire);
	if (!at)
		at = map_window(heap, window);
	if (!at || at == MAP_FAILED)
		return NULL;
	if (*bytes > HEAP_WINDOW_BYTES - begin)
		*bytes = HEAP_WINDOW_BYTES - begin;
	return at + (begin - lead_of(window));
}

void heap_map_all(struct heap *heap, uint64_t offset, uint64_t bytes)
{
	size_t mapped;

	for (uint64_t done = 0; done < bytes; done += mapped) {
		mapped = bytes - done;
		if (!heap_map(heap, offset + done, &mapped))
			return;
	}
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

	if (!heap->bytes || length < HEAP_REGION_MIN)
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
