/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For a moment the program has used up its descriptors, when pages are to move or a key is made:
 * the region migrates when it is asked for again.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "memory/hold.h"
#include "memory/maps.h"
#include "migrate_world.h"

#define REGION	    (8 * PAGE)
#define PATIENCE_NS UINT64_C(30000000000)
#define ASK_NS	    10000000

static _Atomic int until_failure = -1; /* so many calls succeed, then one fails; < 0: all succeed */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	if (atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) == 0) {
		errno = EMFILE;
		return -1;
	}
	return __real_open64(path, flags);
}

static void fail_once(int calls)
{
	atomic_store(&until_failure, calls);
}

static bool has_failed(void)
{
	return atomic_exchange(&until_failure, -1) < 0;
}

/* As a peer that asks until the region has migrated, beside a program that is in verbs. */
static void migrate(uint32_t key)
{
	uint64_t begin = clock_now_ns(), ask_ns = 0;

	while (!heap_of(key) || flags_of(key) & KEY_MOVING) {
		uint64_t now = clock_now_ns();

		assert_int_equal(flags_of(key) & KEY_STAYS, 0);
		assert_true(now - begin < PATIENCE_NS);
		if (now >= ask_ns)
			migrate_request(key);
		ask_ns = now >= ask_ns ? now + ASK_NS : ask_ns;
		hold_point();
		sched_yield();
	}
}

/* Wherever that happens on the way. */
static void check_all_places(void)
{
	bool failed = true;

	for (int calls = 0; failed; calls++) {
		char *region = make_region(REGION);
		uint32_t key = make_key(region, REGION, 0);

		fail_once(calls);
		migrate(key);
		failed = has_failed();
		assert_true(is_shared(region) && is_shared(region + REGION - PAGE));
		end_key(key);
		wait_until_private(region);
		check_region(region, REGION);
		munmap(region, REGION);
	}
}

static void test_with_userfaultfd(void **state)
{
	check_all_places();
}

/* The program has just registered a part of a region that has migrated. */
static void test_second_key(void **state)
{
	char *region = make_region(REGION);
	uint32_t key = make_key(region, REGION, 0), part;

	migrate(key);
	fail_once(0);
	part = make_key(region + PAGE, PAGE, 0);
	assert_true(has_failed());
	migrate(part);
	assert_true(heap_of(part) == heap_of(key) + PAGE);
	end_key(part);
	end_key(key);
	munmap(region, REGION);
}

/* Threads of sanitizers, and that of this test. */
static void count_other_threads(void)
{
	uint64_t threads;

	assert_int_equal(status_number("Threads", &threads), 0);
	while (threads-- > 2)
		hold_add_own_thread();
}

static void test_during_holds(void **state)
{
	setenv("VERBATIM_MIGRATE", "held", 1);
	migrate_init(heap_fd, HEAP, kick);
	count_other_threads();
	check_all_places();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_userfaultfd),
		cmocka_unit_test(test_second_key),
		cmocka_unit_test(test_during_holds),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
