/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Places in the heap that regions left while threads wrote: what the program still maps of them,
 * or a child may, nothing else gets; the others come back.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/heap.h"
#include "migrate_world.h"

/*
 * A region's pages leave while a thread writes; so many bytes behind its second page cannot be
 * written to, and are seen in the heap. Returns it, and which place it had. NULL: there is no place
 * for it.
 */
static char *leave_beside_a_writer(size_t read_only, uint64_t *place)
{
	char *region = make_region(BYTES);
	struct writer writer = { .words = { (uint64_t *)region, (uint64_t *)(region + PAGE),
					    (uint64_t *)(region + BYTES - 8) } };
	uint32_t key = make_key(region, BYTES, 0);
	pthread_t thread;

	if (!request_and_poll(key, 40 * TURNS_MS)) {
		assert_true(flags_of(key) & KEY_STAYS);
		end_key(key);
		munmap(region, BYTES);
		return NULL;
	}
	*place = heap_of(key);
	mprotect(region + 2 * PAGE, read_only, PROT_READ);
	pthread_create(&thread, NULL, keep_writing, &writer);
	usleep(300);
	end_key(key);
	wait_until_private(region);
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	assert_true(is_private_of_heap(region));
	wait_until_quiet();
	return region;
}

static void use_heap_of(uint64_t bytes)
{
	wait_until_quiet();
	migrate_init(heap_fd, bytes, kick);
}

/* A new heap, as in the child of a fork, has all its room, whatever was left in the one before. */
static void test_room_of_a_new_heap(void **state)
{
	uint64_t place;
	char *left = leave_beside_a_writer(0, &place), *region = make_region(BYTES);
	uint32_t key;

	assert_non_null(left);
	use_heap_of(HEAP);
	key = make_key(region, BYTES, 0);
	assert_true(request_and_poll(key, 40 * TURNS_MS));
	assert_int_equal(heap_of(key), HEAP_FIRST);
	end_key(key);
	wait_until_private(region);
	munmap(region, BYTES);
	munmap(left, BYTES);
}

#define PLACES	     5
#define PLACES_BYTES (PLACES * (BYTES + 16 * PAGE)) /* with the room behind each */

static void fork_and_wait(void)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What left beside a writer, and is unmapped by now, has no place any more; `from`: the first. */
static void use_places_again(uint64_t from)
{
	for (int round = 0; round < 2 * PLACES; round++) {
		uint64_t place;
		char *region = leave_beside_a_writer(0, &place);

		assert_non_null(region);
		assert_true(place >= from);
		munmap(region, BYTES);
	}
}

static void assert_empty(const char *from, const char *end)
{
	for (; from < end; from += 8)
		assert_int_equal(*(const uint64_t *)from, 0);
}

/*
 * The place of a region that is still there shows through it, and nothing else gets it; nor what is
 * behind a part of it, which may become as long as before.
 */
static void test_retired_places_come_back(void **state)
{
	uint64_t first, place;
	char *kept, *others[PLACES - 2];

	use_heap_of(HEAP_FIRST + PLACES_BYTES);
	kept = leave_beside_a_writer(0, &first);
	assert_non_null(kept);
	use_places_again(first + BYTES);
	madvise(kept, BYTES, MADV_DONTNEED);
	assert_empty(kept, kept + BYTES);
	assert_ptr_equal(mremap(kept, BYTES, BYTES / 4, 0), kept);
	use_places_again(first + BYTES);
	kept = mremap(kept, BYTES / 4, BYTES, MREMAP_MAYMOVE);
	assert_true(kept != MAP_FAILED);
	assert_empty(kept, kept + BYTES);

	for (int i = 0; i < PLACES - 2; i++) /* one is the room behind `kept` */
		assert_non_null(others[i] = leave_beside_a_writer(0, &place));
	assert_null(leave_beside_a_writer(0, &place));
	for (int i = 0; i < PLACES - 2; i++)
		munmap(others[i], BYTES);
	use_places_again(first + BYTES);
	munmap(kept, BYTES);
	use_places_again(0);
	use_heap_of(HEAP);
}

/* Nor does anything get what a child may see, even when its parent has unmapped it. */
static void test_places_that_a_child_sees(void **state)
{
	uint64_t place;
	char *region;

	use_heap_of(HEAP_FIRST + PLACES_BYTES);
	region = leave_beside_a_writer(0, &place);
	assert_non_null(region);
	fork_and_wait();
	munmap(region, BYTES);
	use_places_again(place + BYTES);
	use_heap_of(HEAP);
}

/* Pages were seen in the heap when the region left: whoever gets the place finds it empty. */
static void test_places_come_back_empty(void **state)
{
	uint64_t place;
	char *region;
	uint32_t key;

	use_heap_of(HEAP);
	region = leave_beside_a_writer(8 * PAGE, &place);
	assert_non_null(region);
	assert_int_equal(peek(place + 4 * PAGE), 4 * PAGE / 8 * 31);
	munmap(region, BYTES);
	region = make_region(PAGE);
	key = make_key(region, PAGE, 0);
	assert_true(request_and_poll(key, 40 * TURNS_MS));
	assert_int_equal(heap_of(key), place);
	assert_int_equal(peek(place + 8), 31);
	assert_int_equal(peek(place + 4 * PAGE), 0);
	end_key(key);
	munmap(region, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room_of_a_new_heap),
		cmocka_unit_test(test_retired_places_come_back),
		cmocka_unit_test(test_places_that_a_child_sees),
		cmocka_unit_test(test_places_come_back_empty),
	};

	setenv("VERBATIM_MIGRATE", "held", 1);
	migrate_world_start();
	add_sanitizer_threads();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
