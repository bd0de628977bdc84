/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program unmaps memory and maps other there just when its pages are to leave the heap, after
 * the look at what is mapped: the new memory is left alone.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "memory/busy.h"
#include "memory/guard.h"
#include "migrate_world.h"

int __wrap_guard_open(bool user_only);
int __real_guard_open(bool user_only);
bool __wrap_busy_with_sleepers(uintptr_t start, uintptr_t end);
bool __real_busy_with_sleepers(uintptr_t start, uintptr_t end);

static char *to_replace; /* at the next call */

static void replace(void)
{
	char *at = to_replace;

	to_replace = NULL;
	if (!at)
		return;
	munmap(at, BYTES);
	assert_true(mmap(at, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == at);
	memset(at, 'n', BYTES);
}

int __wrap_guard_open(bool user_only)
{
	replace();
	return __real_guard_open(user_only);
}

bool __wrap_busy_with_sleepers(uintptr_t start, uintptr_t end)
{
	replace();
	return __real_busy_with_sleepers(start, end);
}

static void check_new(const char *region)
{
	for (size_t i = 0; i < BYTES; i++)
		if (region[i] != 'n')
			fail_msg("byte %zu is %#x", i, region[i]);
}

static void test_with_userfaultfd(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region);
	int error;

	assert_int_equal(move_in(&heap, &range), 0);
	to_replace = region;
	error = move_out(&heap, &range);
	check_new(region);
	assert_int_equal(error, -EAGAIN);
	assert_int_equal(move_out(&heap, &range), 0);
	check_new(region);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
}

static void test_without_a_hold(void **state)
{
	char *region = make_region(BYTES);
	struct move_range range = make_range(region);
	bool shown;
	int error;

	assert_int_equal(move_in(&heap, &range), 0);
	to_replace = region;
	error = move_out_private(&heap, &range, &shown);
	check_new(region);
	assert_int_equal(error, -EAGAIN);
	assert_int_equal(move_out_private(&heap, &range, &shown), 0);
	check_new(region);
	munmap(region, BYTES);
	munmap(range.aside, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_userfaultfd),
		cmocka_unit_test(test_without_a_hold),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
