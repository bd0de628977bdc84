/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migration and keys (docs/design/one-sided.md): pages move only while no hazard is on a key over
 * them, living or dying, and a key over pages that move says so.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "migrate_world.h"

/* A peer is stopped in the middle of a copy: no page moves until it clears its hazard. */
static void test_hazard_of_a_stopped_peer(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct arena_hazard *hazard = arena_hazard(peer_arena, 5);

	hazard->what = (uint64_t)HARNESS_SLOT << 32 | key;
	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	hazard->what = 0;
	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

/* While a range waits for a hazard, all keys over it are MOVING, and others are not. */
static void test_keys_of_a_moving_range(void **state)
{
	char *region = make_region(2 * BYTES);
	uint32_t key = make_key(region, BYTES, 0), inner = make_key(region + PAGE, PAGE, 0);
	uint32_t beside = make_key(region + BYTES, BYTES, 0), late = 0;
	struct arena_hazard *hazard = arena_hazard(peer_arena, 5);
	bool marked = false;

	hazard->what = (uint64_t)HARNESS_SLOT << 32 | key;
	stop_clock(); /* the move waits for the hazard for no longer than 50 ms */
	assert_true(migrate_request(key));
	for (int i = 0; i < 50000 && !marked; i++) {
		usleep(100);
		marked = flags_of(key) & flags_of(inner) & KEY_MOVING; /* one by one */
	}
	assert_true(marked);
	assert_int_equal(flags_of(inner), KEY_MOVING);
	assert_int_equal(flags_of(beside), 0);
	late = make_key(region + 2 * PAGE, PAGE, 0);
	assert_int_equal(flags_of(late), KEY_MOVING);
	hazard->what = 0;
	start_clock();
	wait_until_quiet();
	assert_int_equal(flags_of(key) | flags_of(inner) | flags_of(late), 0);
	assert_int_not_equal(heap_of(key), 0);
	end_key(late);
	end_key(inner);
	end_key(beside);
	end_key(key);
	check_region(region, 2 * BYTES);
	munmap(region, 2 * BYTES);
}

/* For the thread sanitizer: a drain looks at no entry that another thread is filling. */
static void test_keys_made_while_a_range_drains(void **state)
{
	char *region = make_region(BYTES), *other = make_region(PAGE);
	uint32_t key = make_key(region, BYTES, 0);
	struct arena_hazard *hazard = arena_hazard(peer_arena, 5);

	hazard->what = (uint64_t)HARNESS_SLOT << 32 | key;
	assert_true(migrate_request(key));
	for (int i = 0; i < 2000; i++)
		end_key(make_key(other, PAGE, 0));
	hazard->what = 0;
	wait_until_quiet();
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
	munmap(other, PAGE);
}

/* A hazard of this process holds up the move only while its copy goes to the heap. */
static void test_own_hazard(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct arena_hazard *hazard = hazard_set_in_heap(HARNESS_SLOT, key);

	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	hazard_leave_heap(hazard);
	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	hazard_clear(hazard);
	end_key(key);
	munmap(region, BYTES);
}

static void *end_the_key(void *key)
{
	end_key(*(uint32_t *)key);
	return NULL;
}

/* Pages stay in the heap as long as a peer has a hazard on a dying key. */
static void test_hazard_on_a_dying_key(void **state)
{
	char *region = make_region(BYTES);
	uint32_t first = make_key(region, BYTES, 0), second = make_key(region, BYTES, 0);
	struct arena_hazard *hazard = arena_hazard(peer_arena, 5);
	uint64_t place;
	pthread_t thread;

	ask(first);
	place = heap_of(first);
	assert_int_equal(heap_of(second), place);
	hazard->what = (uint64_t)HARNESS_SLOT << 32 | second;
	pthread_create(&thread, NULL, end_the_key, &second);
	while (key_entry(KEY_INDEX(second))->key)
		usleep(100);
	end_key(first);
	assert_int_equal(pwrite(heap_fd, "late", 4, (off_t)place), 4);
	hazard->what = 0;
	pthread_join(thread, NULL);
	assert_memory_equal(region, "late", 4);
	munmap(region, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hazard_of_a_stopped_peer),
		cmocka_unit_test(test_keys_of_a_moving_range),
		cmocka_unit_test(test_keys_made_while_a_range_drains),
		cmocka_unit_test(test_own_hazard),
		cmocka_unit_test(test_hazard_on_a_dying_key),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
