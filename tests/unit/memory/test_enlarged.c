/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program enlarges a mapping (mremap(2)) whose pages are in the heap: it does not get the pages
 * of the region that is behind them there.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "migrate_world.h"

/* Refused while the pages are in the heap; and as on any memory when they are private again. */
static void check_enlarging(size_t bytes)
{
	char *first = make_region(bytes), *behind = make_region(BYTES), *longer;
	uint32_t key = make_key(first, bytes, 0), other = make_key(behind, BYTES, 0);

	ask(key);
	ask(other);
	assert_true(is_shared(first) && is_shared(first + bytes - PAGE));
	assert_true(heap_of(other) == heap_of(key) + bytes + PAGE);
	longer = mremap(first, bytes, 3 * bytes, MREMAP_MAYMOVE);
	assert_true(longer == MAP_FAILED && errno == EFAULT);
	check_region(first, bytes);
	end_key(key);

	longer = mremap(first, bytes, 3 * bytes, MREMAP_MAYMOVE);
	assert_true(longer != MAP_FAILED);
	check_region(longer, bytes);
	for (size_t i = bytes; i < 3 * bytes; i++) {
		assert_int_equal(longer[i], 0);
		longer[i] = 'n';
	}
	check_region(behind, BYTES);
	end_key(other);
	check_region(behind, BYTES);
	munmap(longer, 3 * bytes);
	munmap(behind, BYTES);
}

static void test_two_pages(void **state)
{
	check_enlarging(2 * PAGE);
}

static void test_a_slice(void **state)
{
	check_enlarging(RANGE_SLICE_BYTES);
}

static void test_a_slice_and_a_page(void **state)
{
	check_enlarging(RANGE_SLICE_BYTES + PAGE);
}

static void test_several_slices(void **state)
{
	check_enlarging(BYTES);
}

/* One page is one mapping, which the kernel enlarges: its room in the heap is empty, and leaves
 * too. */
static void test_a_page(void **state)
{
	const size_t bytes = 16 * PAGE;
	char *page = make_region(PAGE), *behind = make_region(BYTES), *longer;
	uint32_t key = make_key(page, PAGE, 0), other = make_key(behind, BYTES, 0);

	ask(key);
	ask(other);
	longer = mremap(page, PAGE, bytes, MREMAP_MAYMOVE);
	assert_true(longer != MAP_FAILED);
	for (size_t i = PAGE; i < bytes; i++)
		assert_int_equal(longer[i], 0);
	memset(longer + PAGE, 'n', bytes - PAGE);
	check_region(behind, BYTES);
	end_key(key);
	assert_false(is_shared(longer) || is_shared(longer + bytes - PAGE));

	page = make_region(PAGE); /* it gets the place */
	key = make_key(page, PAGE, 0);
	ask(key);
	assert_true(heap_of(other) == heap_of(key) + bytes);
	assert_int_equal(peek(heap_of(key) + PAGE), 0);
	check_region(longer, PAGE);
	for (size_t i = PAGE; i < bytes; i++)
		assert_int_equal(longer[i], 'n');
	end_key(key);
	end_key(other);
	munmap(longer, bytes);
	munmap(page, PAGE);
	munmap(behind, BYTES);
}

/* Private pages of the heap's file are still seen behind, and not enlarged either. */
static void test_left_without_a_hold(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region), last = range;
	bool shown;

	range.end = last.start = range.end - PAGE;
	last.offset += BYTES - PAGE;
	last.aside += BYTES - PAGE;
	last.last = true;
	assert_int_equal(move_in(&heap, &range), 0);
	assert_int_equal(move_in(&heap, &last), 0);
	assert_int_equal(move_out_private(&heap, &last, &shown), 0);
	assert_int_equal(move_out_private(&heap, &range, &shown), 0);
	assert_false(is_shared(region));
	assert_true(mremap(region, BYTES, 2 * BYTES, MREMAP_MAYMOVE) == MAP_FAILED &&
		    errno == EFAULT);
	check_region(region, BYTES);
	munmap(range.aside, BYTES);
	munmap(region, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_page),	       cmocka_unit_test(test_two_pages),
		cmocka_unit_test(test_a_slice),	       cmocka_unit_test(test_a_slice_and_a_page),
		cmocka_unit_test(test_several_slices), cmocka_unit_test(test_left_without_a_hold),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
