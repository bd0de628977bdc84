/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/block_pool.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED_BYTES (512u << 10) /* at a time, or one block */

static void map_more(struct block_pool *pool) REQUIRES(pool->lock)
{
	size_t bytes = pool->bytes > MAPPED_BYTES ? pool->bytes : MAPPED_BYTES;
	char *mapped =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapped == MAP_FAILED)
		return;
	pool->unused = mapped;
	pool->unused_bytes = bytes;
}

static void *take(struct block_pool *pool) REQUIRES(pool->lock)
{
	void *block = pool->free;

	if (block) {
		memcpy(&pool->free, block, sizeof(pool->free));
		return block;
	}
	if (pool->unused_bytes < pool->bytes)
		map_more(pool);
	if (pool->unused_bytes < pool->bytes)
		return NULL;
	block = pool->unused;
	pool->unused += pool->bytes;
	pool->unused_bytes -= pool->bytes;
	return block;
}

void block_pool_prepare(struct block_pool *pool)
{
	lock_acquire(&pool->lock);
	if (!pool->free && pool->unused_bytes < pool->bytes)
		map_more(pool);
	lock_release(&pool->lock);
}

unsigned block_pool_get_many(struct block_pool *pool, void **blocks, unsigned count)
{
	int error = errno;
	unsigned got = 0;

	lock_acquire(&pool->lock);
	while (got < count && (blocks[got] = take(pool)) != NULL)
		got++;
	lock_release(&pool->lock);
	errno = error;
	return got;
}

void *block_pool_get(struct block_pool *pool)
{
	void *block;

	return block_pool_get_many(pool, &block, 1) ? block : NULL;
}

void block_pool_put_many(struct block_pool *pool, void **blocks, unsigned count)
{
	lock_acquire(&pool->lock);
	for (unsigned i = 0; i < count; i++) {
		memcpy(blocks[i], &pool->free, sizeof(pool->free));
		pool->free = blocks[i];
	}
	lock_release(&pool->lock);
}

void block_pool_put(struct block_pool *pool, void *block)
{
	block_pool_put_many(pool, &block, 1);
}

void block_pool_reset_after_fork(struct block_pool *pool)
{
	lock_acquire_in_child(&pool->lock);
	pool->free = pool->unused = NULL;
	pool->unused_bytes = 0;
	lock_release(&pool->lock);
}
