/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies through bounce buffers, and whether a word can be written: bad addresses are errors. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/bounce.h"
#include "memory/memory.h"

#define PAGE   4096u
#define ROUNDS 20000u

static uint8_t *pages; /* one to be written, one to be read, one that is not there */

static int setup(void **state)
{
	bounce_init();
	pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	for (unsigned i = 0; i < 2 * PAGE; i++)
		pages[i] = (uint8_t)(i * 7 >> 3);
	assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(munmap(pages + 2 * PAGE, PAGE), 0);
	return 0;
}

static int teardown(void **state)
{
	munmap(pages, 2 * PAGE);
	bounce_reset_after_fork();
	return 0;
}

static void test_all_sizes(void **state)
{
	uint8_t from[PAGE], to[PAGE];

	for (unsigned i = 0; i < PAGE; i++)
		from[i] = (uint8_t)(i * 5 >> 2);
	for (unsigned bytes = 1; bytes <= PAGE; bytes += bytes < 64 ? 1 : 61)
		for (unsigned at = 0; at < 9 && at + bytes <= PAGE; at++) {
			memset(pages, 0xee, PAGE);
			assert_int_equal(bounce_to((uintptr_t)pages + at, from, bytes), 0);
			assert_memory_equal(pages + at, from, bytes);
			assert_true(!at || pages[at - 1] == 0xee);
			assert_true(at + bytes == PAGE || pages[at + bytes] == 0xee);
			memset(to, 0, sizeof(to));
			assert_int_equal(bounce_from(to, (uintptr_t)pages + at, bytes), 0);
			assert_memory_equal(to, from, bytes);
			assert_true(bytes == PAGE || !to[bytes]);
		}
}

static void test_bad_addresses(void **state)
{
	uintptr_t read_only = (uintptr_t)pages + PAGE, missing = read_only + PAGE;
	uint64_t bad[] = { 0, missing, missing - 1, 1ull << 47, 1ull << 63, UINT64_MAX - 7 };
	uint8_t here[16] = { 1 };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(bounce_to(bad[i], here, 16), -EFAULT);
		assert_int_equal(bounce_from(here, bad[i], 16), -EFAULT);
	}
	assert_int_equal(bounce_to(read_only, here, 8), -EFAULT);
	assert_int_equal(bounce_to(read_only - 8, here, 16), -EFAULT);
	assert_int_equal(bounce_from(here, read_only, 16), 0);
	assert_memory_equal(here, pages + PAGE, 16);
}

static void test_a_word_that_can_be_written(void **state)
{
	uint64_t *word = (uint64_t *)pages, before;

	/* the second one is what the kernel compares with */
	for (unsigned i = 0; i < 2; i++) {
		before = *word = i ? 0xfffff800u : 0x123456789abcdef0ull;
		assert_true(memory_is_writable((uintptr_t)word));
		assert_int_equal(*word, before);
	}
	assert_false(memory_is_writable((uintptr_t)pages + PAGE));
	assert_false(memory_is_writable((uintptr_t)pages + 2 * PAGE));
	assert_false(memory_is_writable(0));
	assert_false(memory_is_writable(1ull << 63));
}

/* More of them than there are buffers: each copy is its own thread's, or is not made. */
static void *copy_often(void *arg)
{
	uint64_t mine = (uintptr_t)arg, back, there[32];
	uintptr_t made = 0;

	/* a thread that is preempted keeps its buffer for long */
	for (unsigned i = 0; i < ROUNDS || (made < ROUNDS / 4 && i < 100 * ROUNDS); i++) {
		uint64_t value = mine << 32 | i;
		int r = bounce_to((uintptr_t)&there[i % 32], &value, sizeof(value));

		assert_true(r == 0 || r == -EAGAIN);
		if (r) {
			if (i >= ROUNDS)
				sched_yield();
			continue;
		}
		made++;
		assert_int_equal(there[i % 32], value);
		r = bounce_from(&back, (uintptr_t)&there[i % 32], sizeof(back));
		assert_true(r == -EAGAIN || (r == 0 && back == value));
	}
	return (void *)made;
}

static void test_threads(void **state)
{
	pthread_t threads[4];
	void *made;

	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, copy_often, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], &made);
		assert_true((uintptr_t)made >= ROUNDS / 4);
	}
}

static void test_a_child_has_its_own(void **state)
{
	uint64_t word = 0, value = 5;
	int status;
	pid_t child = fork();

	if (child == 0) {
		bounce_reset_after_fork();
		if (bounce_to((uintptr_t)&word, &value, sizeof(word)) != -EAGAIN)
			_exit(1);
		bounce_init();
		_exit(bounce_to((uintptr_t)&word, &value, sizeof(word)) || word != value);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(bounce_to((uintptr_t)&word, &value, sizeof(word)), 0);
	assert_int_equal(word, value);
}

/* The kernel would end the process by SIGXFSZ, or write a part. */
static void test_a_lowered_limit_of_files(void **state)
{
	static const rlim_t limits[] = { 0, 8, PAGE - 1 };
	uint64_t word = 0, value = 5;
	struct rlimit before, low;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		low = (struct rlimit){ limits[i], before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
		assert_int_equal(bounce_from(&word, (uintptr_t)&value, sizeof(word)), -EAGAIN);
		assert_int_equal(bounce_to((uintptr_t)&word, &value, sizeof(word)), 0);
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(bounce_from(&word, (uintptr_t)&value, sizeof(word)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_sizes),
		cmocka_unit_test(test_bad_addresses),
		cmocka_unit_test(test_a_word_that_can_be_written),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_a_child_has_its_own),
		cmocka_unit_test(test_a_lowered_limit_of_files),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
