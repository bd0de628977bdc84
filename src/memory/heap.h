/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Heap - this process's mappings of migrated pages (memory/migrate.h), its own or a peer's.
 *
 * In:  offsets found in the owner's keys; how often its keys are used.
 * Out: addresses to copy to and from; whether the owner should migrate a region that is used often.
 *
 * Any thread. heap_init, heap_init_own and heap_fini exclude other calls. The file cannot shrink,
 * and offsets are checked against its size. So an address given here can be accessed, whatever
 * another process says; a hole reads as zeroes. The mappings stay until heap_fini, and are not
 * there in the child of a fork.
 *
 * A peer's file is mapped without its descriptor (memory/file_view.h), so that a process with
 * hundreds of peers needs few. To map a window of it takes the addresses of all before it, too, for
 * a moment (RLIMIT_AS): window n needs (n + 1) * HEAP_WINDOW_BYTES. In our own heap memory/move.h
 * might find these mappings, and take them for the program's; so it keeps its descriptor.
 *
 * A peer's window that cannot be mapped is tried again with a later operation. One of our own is
 * not: mapped later than migrate.c does, by another thread, it could be taken for the program's.
 *
 * Barrier WINDOW: who maps a window then stores its address (release); those who look up load it
 * (acquire). Of a peer's heap threads map windows one at a time, under the view's lock; of our own
 * the first one's counts.
 */
#ifndef MEMORY_HEAP_H
#define MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "memory/file_view.h"

#define HEAP_FIRST	  (2ull << 20)	 /* below are no migrated pages, but the doorbell */
#define HEAP_WINDOW_BYTES (256ull << 20) /* mapped at a time */
#define HEAP_WINDOWS	  256		 /* beyond, a longer file is not used */
#define HEAP_WANTS	  64
/* Smaller regions are not worth a page of their own. */
#define HEAP_REGION_MIN 4096

struct heap {
	int fd;		       /* of this process's own; else -1 */
	uint64_t bytes;	       /* 0: not used */
	struct file_view view; /* of a peer's */
	/* Where each is mapped, the first one from HEAP_FIRST on. NULL: not yet; MAP_FAILED: of our
	 * own, cannot be. */
	char *_Atomic windows[HEAP_WINDOWS];
	/*
	 * key << 32 | the worth of migration so far (heap.c); keys of one entry displace each other
	 */
	_Atomic uint64_t wants[HEAP_WANTS];
};

/* A peer's. Takes over fd (may be -1), and closes it. */
void heap_init(struct heap *heap, int fd);
/* This process's own. Takes over fd (may be -1). */
void heap_init_own(struct heap *heap, int fd);
void heap_fini(struct heap *heap);
/* heap_fini in the child of a fork, where other things may be mapped by now. */
void heap_forget(struct heap *heap);

/* Whether a mapping of the heap's file that begins at `start`, with this offset, is a window. */
bool heap_is_window(const struct heap *heap, uintptr_t start, uint64_t offset);

/*
 * The address of [offset, offset + *bytes), or NULL: outside of the file, below HEAP_FIRST, or it
 * cannot be mapped. Reduces *bytes to those of one window.
 */
char *heap_map(struct heap *heap, uint64_t offset, size_t *bytes);
/*
 * Maps all windows of [offset, offset + bytes), up to the first one that cannot be. Of our own,
 * before a key leads there. Otherwise another thread might map one while move_out looks for the
 * program's mappings of the heap.
 */
void heap_map_all(struct heap *heap, uint64_t offset, uint64_t bytes);

/*
 * The heap's offset of the bytes at `host`, the owner's address within a region. 0: not in the
 * heap. Reduces *bytes to those that are alike. The pages at the region's edges are never in the
 * heap.
 */
static inline uint64_t heap_place(const struct arena_key *entry, uint64_t host, size_t *bytes)
{
	uint64_t heap = atomic_load_explicit(&entry->heap, memory_order_acquire);
	uint64_t at = host - entry->addr, begin, end;

	/* The edges are stored before it; until then their owner may store them anew. */
	if (!heap)
		return 0;
	begin = entry->heap_edges & 0xffff;
	end = entry->length - (entry->heap_edges >> 16);
	if (at >= end)
		return 0;
	if (at < begin) {
		if (*bytes > begin - at)
			*bytes = begin - at;
		return 0;
	}
	if (*bytes > end - at)
		*bytes = end - at;
	return heap + at;
}

/*
 * Counts a copy of `bytes` to or from a region of `length` that is not in the heap. True: migration
 * pays, after 16 operations or four times the length. The caller then asks the owner and calls
 * heap_asked; after that heap_pays is false for long.
 */
bool heap_pays(struct heap *heap, uint32_t key, uint64_t length, size_t bytes);
void heap_asked(struct heap *heap, uint32_t key);

#endif
