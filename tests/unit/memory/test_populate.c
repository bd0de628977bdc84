/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * On a kernel without MADV_POPULATE_WRITE (Linux before 5.14) pages leave the heap without a hold:
 * they are copies afterwards, and the heap's memory can be freed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "migrate_world.h"

static bool is_old; /* the kernel */

int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice)
{
	if (!is_old || advice != MADV_POPULATE_WRITE)
		return __real_madvise(start, bytes, advice);
	errno = EINVAL;
	return -1;
}

static void empty_heap(void)
{
	assert_int_equal(
		fallocate(heap_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PLACE, BYTES), 0);
}

static void test_pages_are_copies(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region);
	bool shown;

	assert_int_equal(move_in(&heap, &range), 0);
	is_old = true;
	assert_int_equal(move_out_private(&heap, &range, &shown), 0);
	is_old = false;
	assert_false(shown);
	empty_heap();
	check_region(region, BYTES);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
}

/* One that may only be read is still seen in the heap. */
static void test_a_page_that_may_only_be_read(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region);
	bool shown;

	assert_int_equal(move_in(&heap, &range), 0);
	assert_int_equal(mprotect(region + BYTES / 2, PAGE, PROT_READ), 0);
	is_old = true;
	assert_int_equal(move_out_private(&heap, &range, &shown), 0);
	is_old = false;
	assert_true(shown);
	check_region(region, BYTES);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
	empty_heap();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_are_copies),
		cmocka_unit_test(test_a_page_that_may_only_be_read),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
