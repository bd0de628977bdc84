/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks are apart from each other, and are used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/block_pool.h"

#define BLOCKS 1000

static void fill(struct block_pool *pool, void **blocks, size_t bytes)
{
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = block_pool_get(pool);
		assert_non_null(blocks[i]);
		assert_int_equal((uintptr_t)blocks[i] % BLOCK_POOL_ALIGN, 0);
		memset(blocks[i], i, bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		for (size_t j = 0; j < bytes; j++)
			assert_int_equal(((uint8_t *)blocks[i])[j], (uint8_t)i);
}

static void blocks_are_apart(void **state)
{
	static const size_t sizes[] = { 1, 64, 65, 1000, 5000, (64 << 10) - 1, (64 << 10) + 1 };
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct block_pool pool = BLOCK_POOL_INITIALIZER(sizes[i]);

		for (int turn = 0; turn < 2; turn++) {
			fill(&pool, blocks, sizes[i]);
			for (int k = 0; k < BLOCKS; k++)
				block_pool_put(&pool, blocks[k]);
		}
	}
}

static void blocks_are_used_again(void **state)
{
	struct block_pool pool = BLOCK_POOL_INITIALIZER(5000);
	void *block = block_pool_get(&pool), *other = block_pool_get(&pool);

	block_pool_put(&pool, block);
	assert_ptr_equal(block_pool_get(&pool), block);
	block_pool_put(&pool, block);
	block_pool_reset_after_fork(&pool);
	assert_ptr_not_equal(block_pool_get(&pool), block);
	block_pool_put(&pool, other);
	assert_ptr_equal(block_pool_get(&pool), other);
}

static void without_memory(void **state)
{
	struct block_pool pool = BLOCK_POOL_INITIALIZER(64);
	struct rlimit before, none;

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ 1, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_null(block_pool_get(&pool));
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_non_null(block_pool_get(&pool));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_apart),
		cmocka_unit_test(blocks_are_used_again),
		cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
