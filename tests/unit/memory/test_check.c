/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of memory/: ranges in the heap, keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../broken.h"
#include "harness.h"
#include "memory/key_revoke.h"
#include "memory/range.h"

#define PAGE 4096ul
#define HEAP (64ul << 20)
#define AT   (1ul << 40)

static int set_up(void **state)
{
	harness_arena();
	return 0;
}

static void test_ranges(void **state)
{
	struct range *made;

	lock_acquire(&range_lock);
	for (unsigned i = 0; i < 3; i++)
		assert_true(range_insert(&(struct range){ .start = AT + 16 * i * PAGE,
							  .end = AT + (16 * i + 8) * PAGE },
					 HEAP, &made));
	assert_broken(ranges[1].offset -= PAGE, range_check()); /* no page between */
	assert_broken(ranges[0].offset = 0, range_check());
	assert_broken(ranges[1].start = ranges[0].start, range_check()); /* a page of two ranges */
	assert_broken(ranges[2].end++, range_check());
	assert_broken(ranges[2].in = 9 * PAGE, range_check());
	assert_broken(ranges[2].settled = true, range_check()); /* not all of it is in the heap */
	assert_broken(range_count = RANGES_MAX + 1, range_check());
	lock_release(&range_lock);
}

static void free_index(uint32_t index, uint32_t times)
{
	uint32_t other, key;

	for (uint32_t i = 0; i < times; i++)
		key_free(index);
	for (unsigned i = 0; i < 2000; i++) { /* all are looked at now and then */
		assert_int_equal(key_alloc(&other, &key), 0);
		key_free(other);
	}
}

static void test_keys(void **state)
{
	uint32_t index, key, last;

	assert_int_equal(key_alloc(&index, &key), 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(key_alloc(&last, &key), 0);
	assert_broken(free_index(index, 2), (void)0);
	assert_broken(free_index(last + 1, 1), (void)0); /* it was never given */
	assert_broken(key_publish(index, key), (void)0); /* the key of another index */
	assert_broken((key_publish(last, key), key_free(last)), (void)0);
	assert_broken((key_publish(last, key), key_zero(last), key_publish(last, key)), (void)0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
