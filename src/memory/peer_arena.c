/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/peer_arena.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cause.h"

/* Nobody writes to it. Aligned for an entry: more would align the library's segment. */
static _Alignas(64) char none[PEER_WINDOW_BYTES];

#define KEYS_FIRST ((uint32_t)ARENA_KEY_OFFSET / PEER_WINDOW_BYTES)
#define KEYS_COUNT ((uint32_t)(PEER_KEYS_AT_ONCE * sizeof(struct arena_key)) / PEER_WINDOW_BYTES)

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

static int map_at_once(struct peer_arena *arena, int fd, uint32_t window, uint32_t count)
{
	char *base = mmap(NULL, (size_t)count * PEER_WINDOW_BYTES, PROT_READ, MAP_SHARED, fd,
			  (off_t)window * PEER_WINDOW_BYTES);

	if (base == MAP_FAILED)
		return -errno;
	for (uint32_t i = 0; i < count; i++)
		atomic_init(&arena->windows[window + i], base + (size_t)i * PEER_WINDOW_BYTES);
	return 0;
}

static_assert(ARENA_QPS_A_BIT * sizeof(struct arena_qp) == PEER_WINDOW_BYTES,
	      "a bit is a window's");

/*
 * What the peer says in its header, and not by a call about its file: calls that take the file's
 * lock, as lseek(2) does for SEEK_DATA, wait for a write to it that the peer need not let end.
 */
static int map_qps(struct peer_arena *arena, int fd)
{
	uint32_t used =
		atomic_load_explicit(&peer_arena_header(arena)->qps_used, memory_order_relaxed);
	int error = 0;

	for (uint32_t i = 0; !error && i < ARENA_QPS / ARENA_QPS_A_BIT; i++)
		if (used >> i & 1)
			error = map_at_once(arena, fd,
					    (uint32_t)ARENA_QP_OFFSET / PEER_WINDOW_BYTES + i, 1);
	return error;
}

int peer_arena_open(struct peer_arena *arena, int fd)
{
	int error;

	for (uint32_t i = 0; i < PEER_WINDOWS; i++)
		atomic_init(&arena->windows[i], NULL);
	error = map_at_once(arena, fd, 0, 1);
	if (!error)
		error = map_at_once(arena, fd, KEYS_FIRST, KEYS_COUNT);
	if (!error)
		error = map_qps(arena, fd);
	if (!error)
		error = file_view_open(&arena->view, fd, PROT_READ);
	if (error)
		unmap_windows(arena);
	arena->own = false;
	return error;
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

bool peer_arena_is_missing(const void *entry)
{
	return (uintptr_t)entry - (uintptr_t)none < sizeof(none);
}

char *peer_arena_map(struct peer_arena *arena, uint32_t window)
{
	int error = file_view_map(&arena->view, &arena->windows[window],
				  (uint64_t)window * PEER_WINDOW_BYTES, PEER_WINDOW_BYTES);

	if (!error)
		return atomic_load_explicit(&arena->windows[window], memory_order_acquire);
	if (error != -EALREADY)
		cause_report_ratelimited(CAUSE_MEMORY_EXHAUSTED, 0, "tables of process %d: %s",
					 (int)peer_arena_header(arena)->pid, strerror(-error));
	return none;
}
