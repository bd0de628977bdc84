/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/peer_arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Nobody writes to it. */
static _Alignas(PEER_WINDOW_BYTES) char none[PEER_WINDOW_BYTES];

int peer_arena_open(struct peer_arena *arena, int fd)
{
	char *first = mmap(NULL, PEER_WINDOW_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	int error;

	if (first == MAP_FAILED)
		return -errno;
	error = file_view_open(&arena->view, fd);
	if (error) {
		munmap(first, PEER_WINDOW_BYTES);
		return error;
	}
	for (uint32_t i = 0; i < PEER_WINDOWS; i++)
		atomic_init(&arena->windows[i], i ? NULL : first);
	arena->own = false;
	return 0;
}

void peer_arena_open_own(struct peer_arena *arena, void *own)
{
	for (uint32_t i = 0; i < PEER_WINDOWS; i++)
		atomic_init(&arena->windows[i], (char *)own + (size_t)i * PEER_WINDOW_BYTES);
	arena->own = true;
}

void peer_arena_move(struct peer_arena *to, struct peer_arena *from)
{
	memcpy(to, from, sizeof(*to));
}

/*
 * The address is gone before the window is. So what a child of a fork finds here was mapped when
 * the kernel copied the mappings.
 */
static void unmap_windows(struct peer_arena *arena)
{
	for (uint32_t i = 0; i < PEER_WINDOWS; i++) {
		char *base = atomic_exchange(&arena->windows[i], NULL);

		if (base)
			munmap(base, PEER_WINDOW_BYTES);
	}
}

void peer_arena_close(struct peer_arena *arena)
{
	if (arena->own)
		return;
	unmap_windows(arena);
	file_view_close(&arena->view);
}

void peer_arena_close_in_child(struct peer_arena *arena)
{
	if (!arena->own)
		unmap_windows(arena);
}

char *peer_arena_map(struct peer_arena *arena, uint32_t window)
{
	struct file_view *view = &arena->view;
	int saved = errno;
	char *base;

	lock_acquire(&view->lock);
	base = atomic_load_explicit(&arena->windows[window], memory_order_relaxed);
	if (!base) { /* else another thread has mapped it */
		base = file_view_map(view, (uint64_t)window * PEER_WINDOW_BYTES, PEER_WINDOW_BYTES);
		if (base != MAP_FAILED) /* barrier WINDOW */
			atomic_store_explicit(&arena->windows[window], base, memory_order_release);
	}
	lock_release(&view->lock);
	errno = saved;
	return base == MAP_FAILED ? none : base;
}
