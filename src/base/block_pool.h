/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block pool - blocks of one size for calls that must not call malloc: polls and posts.
 *
 * A program's signal handler may call malloc (perftest's, at SIGALRM, reads a file by stdio). If it
 * interrupted a malloc of ours its thread would wait for the lock that it holds.
 *
 * The memory is the kernel's, by mmap, and stays with the pool: as much as was in use at a time.
 *
 * Any thread. The lock is innermost.
 */
#ifndef BASE_BLOCK_POOL_H
#define BASE_BLOCK_POOL_H

#include <stddef.h>

#include "base/lock.h"

struct block_pool {
	struct lock lock; /* guards what is below but for `bytes` */
	size_t bytes;	  /* of a block: a multiple of BLOCK_POOL_ALIGN */
	void *free;	  /* each begins with the address of the next */
	char *unused;	  /* mapped, and never given out */
	size_t unused_bytes;
};

#define BLOCK_POOL_ALIGN 64
#define BLOCK_POOL_INITIALIZER(size)                                                               \
	{                                                                                          \
		.lock = LOCK_INITIALIZER,                                                          \
		.bytes = ((size) + BLOCK_POOL_ALIGN - 1) & -(size_t)BLOCK_POOL_ALIGN               \
	}

/*
 * Maps the first blocks, unless there is no memory. Later mappings may come to lie where the
 * program has just unmapped memory that a peer can still write to.
 */
void block_pool_prepare(struct block_pool *pool);

/* A block, with whatever is in it; NULL: no memory. */
void *block_pool_get(struct block_pool *pool);
void block_pool_put(struct block_pool *pool, void *block);

/* Several at once, for one acquisition of the lock; returns how many there were. */
unsigned block_pool_get_many(struct block_pool *pool, void **blocks, unsigned count);
void block_pool_put_many(struct block_pool *pool, void **blocks, unsigned count);

/* In the child of a fork: blocks that were free are left to the parent. */
void block_pool_reset_after_fork(struct block_pool *pool);

#endif
