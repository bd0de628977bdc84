/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program has sealed the mapping of a region (mseal(2), Linux 6.10): the region stays where it
 * is, and others migrate as ever.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "migrate_world.h"

#define CALL_MSEAL 462 /* not in headers before Linux 6.10 */

static void seal(char *region)
{
	if (syscall(CALL_MSEAL, region, BYTES, 0))
		skip();
}

static void check_others(void)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	assert_true(migrate_request(key));
	for (int i = 0; i < 10000 && (!heap_of(key) || flags_of(key)); i++)
		usleep(1000); /* a sealed range is tried again and again, so it is never quiet */
	assert_int_not_equal(heap_of(key), 0);
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

static void test_sealed(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	seal(region);
	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), KEY_STAYS);
	check_region(region, BYTES);
	end_key(key);
	check_others();
}

/* Its pages cannot leave the heap any more. */
static void test_sealed_when_it_had_migrated(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	ask(key);
	assert_true(is_shared(region));
	seal(region);
	end_key(key);
	check_region(region, BYTES);
	memset(region, 's', BYTES);
	check_others();
	assert_int_equal(region[BYTES - 1], 's');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_sealed_when_it_had_migrated),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
