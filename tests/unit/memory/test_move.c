/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promises of memory/move.h: no write is lost while pages go to the heap and come back.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migrate_world.h"

static void test_no_write_is_lost(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region);
	struct writer writer = {
		.words = { (uint64_t *)region, (uint64_t *)(region + BYTES / 2),
			   (uint64_t *)(region + BYTES - 8) },
	};
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		*writer.words[i] = 0;
	pthread_create(&thread, NULL, keep_writing, &writer);
	for (int round = 0; round < 50; round++) {
		assert_int_equal(move_in(&heap, &range), 0);
		assert_int_equal(move_check_there(&heap, range.start, range.end, PLACE), 0);
		usleep(1000);
		assert_int_equal(move_out(&heap, &range), 0);
		usleep(500);
	}
	writer.stop = true;
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(*writer.words[i], writer.writes);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
}

/* A system call that writes to guarded pages waits like the program's own stores. */
static void test_system_calls_wait(void **state)
{
	char *region = make_region(BYTES), byte = 'x';
	struct move_range range = make_range(region);
	pthread_t thread;
	int ends[2];
	uint64_t dummy[3] = { 0 };
	struct writer writer = { .words = { &dummy[0], &dummy[1], &dummy[2] } };

	assert_int_equal(pipe(ends), 0);
	pthread_create(&thread, NULL, keep_writing, &writer);
	for (int round = 0; round < 20; round++) {
		region[BYTES / 2] = 0;
		assert_int_equal(move_in(&heap, &range), 0);
		assert_int_equal(write(ends[1], &byte, 1), 1);
		assert_int_equal(read(ends[0], region + BYTES / 2, 1), 1);
		assert_int_equal(move_out(&heap, &range), 0);
		assert_int_equal(region[BYTES / 2], 'x');
	}
	writer.stop = true;
	pthread_join(thread, NULL);
	close(ends[0]);
	close(ends[1]);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
}

/* Pages that the program has moved with mremap become private at their new address. */
static void test_remapped_meanwhile(void **state)
{
	char *region = make_region(BYTES), *to = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	memset(to, 0, BYTES);
	assert_true(mremap(region, BYTES / 2, BYTES / 2, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	assert_true(is_shared(to));
	end_key(key);
	assert_false(is_shared(to));
	assert_false(is_shared(region + BYTES / 2));
	check_region(to, BYTES / 2);
	for (size_t i = BYTES / 16; i < BYTES / 8; i++)
		assert_true(((uint64_t *)region)[i] == i * 31);
	munmap(to, BYTES);
	munmap(region + BYTES / 2, BYTES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_write_is_lost),
		cmocka_unit_test(test_system_calls_wait),
		cmocka_unit_test(test_remapped_meanwhile),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
