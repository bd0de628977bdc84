/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork free - free() for the fork handlers of the child.
 *
 * In:  blocks of malloc, at least a pointer long.
 * Out: nothing.
 *
 * Until fork returns, the child neither allocates nor frees: another thread of the parent may have
 * held a lock of the allocator. glibc's allocator handles that; those of sanitizers and of some
 * programs do not, and the child would wait for that lock forever. So blocks that the handlers free
 * are kept, and freed when the child makes an adapter of its own.
 *
 * The child has one thread then, so nothing here needs a lock. Never blocks.
 */
#ifndef BASE_FORK_FREE_H
#define BASE_FORK_FREE_H

/* The first and the last call of the child's handler. */
void fork_free_begin(void);
void fork_free_end(void);

/* Frees the block; in a handler of the child, keeps it. */
void fork_free(void *block);

/* Frees the blocks that were kept. Not in a handler; one thread at a time. */
void fork_free_kept(void);

#endif
