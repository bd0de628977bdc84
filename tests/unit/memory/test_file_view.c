/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of a file whose descriptor is closed: in any order, by several threads, and where the
 * kernel refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/page.h"
#include "memory/file_view.h"

#define PART  PAGE_BYTES_MAX
#define PARTS 64

static struct file_view view;
static uint32_t *file; /* each word of part i holds i */

static int setup(void **state)
{
	int fd = memfd_create("viewed", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)PART * PARTS), 0);
	file = mmap(NULL, (size_t)PART * PARTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	for (uint32_t i = 0; i < PARTS; i++)
		for (uint32_t k = 0; k < PART / sizeof(*file); k += 256)
			file[i * (PART / sizeof(*file)) + k] = i;
	assert_int_equal(file_view_open(&view, fd, PROT_READ), 0);
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	file_view_close(&view);
	munmap(file, (size_t)PART * PARTS);
	return 0;
}

static void *map_part(uint32_t i, uint32_t parts)
{
	char *_Atomic part = NULL;
	int error = file_view_map(&view, &part, (uint64_t)i * PART, (size_t)parts * PART);

	assert_int_equal(error != 0, part == NULL);
	return part;
}

static bool is_part(const uint32_t *part, uint32_t i)
{
	for (uint32_t k = 0; k < PART / sizeof(*part); k += 256)
		if (part[k] != i)
			return false;
	return true;
}

/* All but the first, in leaps. */
static void test_in_any_order(void **state)
{
	uint32_t *parts[PARTS] = { 0 };

	for (uint32_t n = 1; n < PARTS; n++) {
		uint32_t at = n * 37 % PARTS;

		parts[at] = map_part(at, 1);
		assert_non_null(parts[at]);
	}
	for (uint32_t i = 0; i < PARTS; i++)
		if (parts[i]) {
			assert_true(is_part(parts[i], i));
			/* what the owner writes later is seen, too */
			file[i * (PART / sizeof(*file))]++;
			assert_int_equal(parts[i][0], i + 1);
			file[i * (PART / sizeof(*file))]--;
			munmap(parts[i], PART);
		}
}

static void test_longer_parts(void **state)
{
	uint32_t *part = map_part(7, 9);

	assert_non_null(part);
	for (uint32_t i = 0; i < 9; i++)
		assert_true(is_part(part + i * (PART / sizeof(*part)), 7 + i));
	munmap(part, (size_t)9 * PART);
}

static void *map_many(void *arg)
{
	uintptr_t wrong = 0;

	for (uint32_t n = 0; n < 2000; n++) {
		uint32_t i = 1 + (n * 29 + (uint32_t)(uintptr_t)arg) % (PARTS - 1);
		uint32_t *part = map_part(i, 1);

		wrong += !part || !is_part(part, i);
		if (part)
			munmap(part, PART);
	}
	return (void *)wrong;
}

static void test_threads(void **state)
{
	pthread_t threads[2];
	void *wrong;

	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, map_many, (void *)i), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

/* What several threads look for is mapped once. */
static void *map_the_same(void *arg)
{
	static char *_Atomic places[PARTS];
	uintptr_t wrong = 0;

	for (uint32_t i = 1; i < PARTS; i++)
		wrong += file_view_map(&view, &places[i], (uint64_t)i * PART, PART) ||
			 !is_part((uint32_t *)places[i], i);
	pthread_barrier_wait(arg);
	for (uint32_t i = 1; i < PARTS; i++) {
		char *part = atomic_exchange(&places[i], NULL);

		if (part)
			munmap(part, PART);
	}
	return (void *)wrong;
}

static void test_threads_at_the_same_places(void **state)
{
	pthread_barrier_t mapped;
	pthread_t threads[2];
	void *wrong;

	pthread_barrier_init(&mapped, NULL, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, map_the_same, &mapped), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	pthread_barrier_destroy(&mapped);
}

/* Nothing has changed then, and it is tried again some time later. */
static void test_without_addresses(void **state)
{
	struct rlimit before, none;
	char *_Atomic part = NULL;

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	for (int i = 0; i < 3; i++) {
		int error;

		errno = EPROTO;
		assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
		error = file_view_map(&view, &part, 11 * PART, PART);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		assert_int_equal(error, -ENOMEM);
		assert_int_equal(errno, EPROTO);
		assert_int_equal(file_view_map(&view, &part, 11 * PART, PART), -EALREADY);
		assert_null(part);
		assert_in_range(view.not_before_ns, 1, clock_now_ns() + FILE_VIEW_RETRY_NS);
		view.not_before_ns = clock_coarse_ns();
	}
	assert_int_equal(file_view_map(&view, &part, 11 * PART, PART), 0);
	assert_true(is_part((uint32_t *)part, 11));
	munmap(part, PART);
}

static void test_a_child_maps_nothing(void **state)
{
	int status;
	pid_t child = fork();

	if (!child) {
		char *_Atomic part = NULL;

		/* as another thread of the parent may have held it */
		lock_acquire(&view.lock);
		_exit(file_view_map(&view, &part, PART, PART) != -EALREADY || part);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* A process that locks all its memory, and may not lock more, maps parts as others do. */
static void map_locked(void)
{
	struct rlimit few = { 64 << 10, 64 << 10 };
	int fd;

	file_view_close(&view);
	fd = memfd_create("viewed", MFD_CLOEXEC);
	if (setrlimit(RLIMIT_MEMLOCK, &few) || ftruncate(fd, (off_t)PART * PARTS) ||
	    (!geteuid() && setresuid(65534, 65534, 65534)) || mlockall(MCL_FUTURE))
		_exit(2);
	if (file_view_open(&view, fd, PROT_READ))
		_exit(3);
	for (uint32_t i = 1; i < PARTS; i++)
		if (!map_part(i, 1))
			_exit(4);
	_exit(0);
}

static void test_locked_memory(void **state)
{
	int status;
	pid_t child = fork();

	if (!child)
		map_locked();
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_no_view_of_a_bad_descriptor(void **state)
{
	struct file_view other;

	assert_int_equal(file_view_open(&other, -1, PROT_READ), -EBADF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_any_order),      TEST(test_longer_parts),
		TEST(test_threads),	      TEST(test_threads_at_the_same_places),
		TEST(test_without_addresses), TEST(test_a_child_maps_nothing),
		TEST(test_locked_memory),     cmocka_unit_test(test_no_view_of_a_bad_descriptor),
	};

	return cmocka_run_group_tests_name("file view", tests, NULL, NULL);
}
