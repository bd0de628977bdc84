/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peer arena - a process's arena (base/arena.h) as another process reads it: mapped in windows of
 * 64 KiB, where it is used.
 *
 * In:  the arena's descriptor, once; QPNs and indexes of keys.
 * Out: entries of its tables.
 *
 * A whole arena is 6 MiB of addresses, of which a peer uses some pages. Yet what is mapped in a
 * post may get addresses that the program has just unmapped, and names in that post: an on-demand
 * region would then have bytes of ours (CONTRACT 6). So these windows are mapped from the
 * beginning: that of the header and the hazards, those of QPs that the peer has made by then, and
 * those of PEER_KEYS_AT_ONCE keys. A QP is connected either before there is a link, so it finds its
 * peer's entry among these, or after, and then looks it up at once. Another window is mapped when
 * something in it is looked up: that of a key of a process with more than 1,024 keys at a time. If
 * that is not possible, the lookup finds zeros: no such QP, no such key. That is reported, and not
 * tried again for FILE_VIEW_RETRY_NS.
 *
 * Any thread; opening and closing exclude other calls. Barrier WINDOW: a thread maps a window under
 * the view's lock, then stores its address (release); those who look up load it (acquire). A window
 * stays mapped until the arena is closed. The child of a fork maps none (memory/file_view.h).
 */
#ifndef MEMORY_PEER_ARENA_H
#define MEMORY_PEER_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/page.h"
#include "memory/file_view.h"
#include "memory/key.h"

#define PEER_WINDOW_BYTES PAGE_BYTES_MAX
#define PEER_WINDOWS	  (ARENA_BYTES / PEER_WINDOW_BYTES)

/* Released indexes rest, so a process with few keys at a time uses these alone in its life. */
#define PEER_KEYS_AT_ONCE (KEY_REST + 1024)

static_assert(ARENA_BYTES % PEER_WINDOW_BYTES == 0, "windows are of one length");
static_assert(ARENA_QP_OFFSET % sizeof(struct arena_qp) == 0 &&
		      ARENA_KEY_OFFSET % sizeof(struct arena_key) == 0,
	      "no entry lies in two windows");
static_assert(PEER_KEYS_AT_ONCE * sizeof(struct arena_key) % PEER_WINDOW_BYTES == 0,
	      "the keys at once fill windows");
static_assert(ARENA_HAZARD_OFFSET + ARENA_HAZARD_LINES * sizeof(struct arena_hazard_line) <=
		      PEER_WINDOW_BYTES,
	      "the hazards are in the first window");

struct peer_arena {
	char *_Atomic windows[PEER_WINDOWS]; /* NULL: not mapped yet */
	struct file_view view;		     /* not of one's own */
	bool own;
};

/*
 * The file is an arena's, and sealed: it has ARENA_BYTES and cannot shrink. The descriptor stays
 * the caller's. 0 or -errno.
 */
int peer_arena_open(struct peer_arena *arena, int fd);

/* This process's own, which is mapped as a whole. */
void peer_arena_open_own(struct peer_arena *arena, void *own);

/* To a place where other threads will find it. */
void peer_arena_move(struct peer_arena *to, struct peer_arena *from);

void peer_arena_close(struct peer_arena *arena);

/*
 * The same in the child of a fork. The parent's threads may have been mapping windows meanwhile, so
 * nobody knows where the scratch of the view is: it stays.
 */
void peer_arena_close_in_child(struct peer_arena *arena);

/* Maps a window. Zeros, the same for all, if it cannot be mapped. */
char *peer_arena_map(struct peer_arena *arena, uint32_t window);

/* What was looked up is such zeros: nobody knows what is in the arena. */
bool peer_arena_is_missing(const void *entry);

static inline struct arena_header *peer_arena_header(struct peer_arena *arena)
{
	return arena_header(atomic_load_explicit(&arena->windows[0], memory_order_relaxed));
}

static inline void *peer_arena_at(struct peer_arena *arena, uint32_t offset)
{
	uint32_t window = offset / PEER_WINDOW_BYTES;
	char *base = atomic_load_explicit(&arena->windows[window], memory_order_acquire);

	if (__builtin_expect(!base, 0))
		base = peer_arena_map(arena, window);
	return base + offset % PEER_WINDOW_BYTES;
}

/* Of the QP with this number, as far as the process has it. */
static inline struct arena_qp *peer_arena_qp(struct peer_arena *arena, uint32_t qpn)
{
	uint32_t index = qpn & (ARENA_QPS - 1);

	return peer_arena_at(arena, ARENA_QP_OFFSET + index * (uint32_t)sizeof(struct arena_qp));
}

/* index < ARENA_KEYS */
static inline struct arena_key *peer_arena_key(struct peer_arena *arena, uint32_t index)
{
	return peer_arena_at(arena, ARENA_KEY_OFFSET + index * (uint32_t)sizeof(struct arena_key));
}

#endif
