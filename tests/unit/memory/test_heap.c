/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap of another process, which may be hostile: heap_map checks its offsets, and gives no
 * address that faults. It needs no descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/page.h"
#include "memory/heap.h"
#include "memory/maps.h"
#include "memory/migrate.h"

#define PAGE  4096
#define BYTES (HEAP_WINDOW_BYTES + 4 * PAGE) /* the second window is cut */
#define KEY   0x00012345u

static struct heap heap;
static int file; /* its file */

static int make_file(unsigned flags, int seals, uint64_t bytes)
{
	int fd = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* The heap of an honest peer. */
static int set_up(void **state)
{
	file = make_file(0, F_SEAL_SHRINK | F_SEAL_GROW, BYTES);
	heap_init(&heap, fcntl(file, F_DUPFD_CLOEXEC, 0));
	assert_int_equal(heap.bytes, BYTES);
	return 0;
}

static int tear_down(void **state)
{
	heap_fini(&heap);
	close(file);
	return 0;
}

/* A file that is cut off later raises SIGBUS in processes that have mapped it. */
static void files_that_may_shrink_are_refused(void **state)
{
	const int seals[] = { 0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW };

	for (int i = 0; i < 4; i++) {
		bool fits = seals[i] & F_SEAL_SHRINK;
		int fd = make_file(0, seals[i], BYTES);
		struct heap peers;
		size_t bytes = 1;

		heap_init(&peers, fd);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
		assert_int_equal(peers.bytes, fits ? BYTES : 0);
		assert_int_equal(heap_map(&peers, HEAP_FIRST, &bytes) != NULL, fits);
		heap_fini(&peers);
	}
}

static void files_without_seals_are_refused(void **state)
{
	int fds[2], fd;
	struct heap peers;

	assert_int_equal(pipe(fds), 0);
	heap_init(&peers, fds[0]);
	assert_int_equal(peers.bytes, 0);
	close(fds[1]);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	heap_init(&peers, fd);
	assert_int_equal(peers.bytes, 0);
	heap_init(&peers, -1);
	assert_int_equal(peers.bytes, 0);
	heap_fini(&peers);
}

static void nothing_outside_of_the_file_is_mapped(void **state)
{
	static const struct {
		uint64_t offset;
		size_t bytes;
		bool inside;
	} rows[] = {
		{ HEAP_FIRST, 1, true },
		{ HEAP_FIRST - 1, 1, false },
		{ 0, 1, false },
		{ BYTES - 1, 1, true },
		{ BYTES - PAGE, PAGE, true },
		{ BYTES - PAGE, PAGE + 1, false },
		{ BYTES - 1, 2, false },
		{ BYTES, 1, false },
		{ BYTES, 0, false },
		{ BYTES + PAGE, 1, false },
		{ 2 * HEAP_WINDOW_BYTES, 1, false },
		{ HEAP_WINDOWS * HEAP_WINDOW_BYTES, 1, false },
		{ HEAP_WINDOWS * HEAP_WINDOW_BYTES - 1, 2, false },
		{ UINT64_MAX, 1, false },
		{ UINT64_MAX - PAGE, 2 * PAGE, false },
		{ HEAP_FIRST + 1, SIZE_MAX, false },
		{ HEAP_FIRST, SIZE_MAX - HEAP_FIRST + 1, false },
		{ BYTES - PAGE, SIZE_MAX - BYTES + 2 * PAGE, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t bytes = rows[i].bytes;
		char *at = heap_map(&heap, rows[i].offset, &bytes);

		if ((at != NULL) != rows[i].inside)
			fail_msg("row %zu: %s", i, at ? "mapped" : "not mapped");
		if (at)
			memset(at, 1, bytes); /* is there */
	}
}

/* A heap whose file is longer than all windows: there is no window for the rest. */
static void bytes_behind_the_windows_are_not_mapped(void **state)
{
	const uint64_t end = HEAP_WINDOWS * HEAP_WINDOW_BYTES;
	struct heap peers;
	size_t bytes = 1;

	heap_init(&peers, make_file(0, F_SEAL_SHRINK | F_SEAL_GROW, end + PAGE));
	assert_int_equal(peers.bytes, end + PAGE);
	assert_non_null(heap_map(&peers, end - 1, &bytes));
	assert_null(heap_map(&peers, end, &bytes));
	assert_null(heap_map(&peers, end + PAGE - 1, &bytes));
	heap_fini(&peers);
}

static void a_piece_ends_with_its_window(void **state)
{
	size_t bytes = 3 * PAGE;
	char *first = heap_map(&heap, HEAP_WINDOW_BYTES - PAGE, &bytes), *second;

	assert_non_null(first);
	assert_int_equal(bytes, PAGE);
	memset(first, 'a', bytes);
	bytes = 2 * PAGE;
	second = heap_map(&heap, HEAP_WINDOW_BYTES, &bytes);
	assert_non_null(second);
	assert_int_equal(bytes, 2 * PAGE);
	memset(second, 'b', bytes);

	/* The same bytes are in the file. */
	for (int i = 0; i < 2; i++) {
		char byte = 0;

		assert_int_equal(pread(file, &byte, 1, (off_t)(HEAP_WINDOW_BYTES - 1 + i)), 1);
		assert_int_equal(byte, "ab"[i]);
	}
}

struct look {
	uintptr_t start;
	uint64_t bytes;
};

static bool visit_mapping(const struct mapping *m, void *arg)
{
	struct look *look = arg;

	if (m->start == look->start)
		look->bytes = m->end - m->start;
	return m->start < look->start;
}

/* The length of the mapping that starts there; 0: none does. */
static uint64_t mapped_at(const char *at)
{
	struct look look = { .start = (uintptr_t)at };

	assert_int_equal(maps_visit(visit_mapping, &look), 0);
	return look.bytes;
}

/* What lies between its first page and a window is not mapped for longer than a moment. */
static bool visit_of_file(const struct mapping *m, void *arg)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	if (m->inode == st.st_ino)
		*(uint64_t *)arg += m->end - m->start;
	return true;
}

static void nothing_else_is_mapped(void **state)
{
	uint64_t mapped = 0;
	size_t bytes = 1;

	assert_non_null(heap_map(&heap, HEAP_WINDOW_BYTES, &bytes));
	assert_int_equal(maps_visit(visit_of_file, &mapped), 0);
	assert_int_equal(mapped, page_bytes() + 4 * PAGE);
	mapped = 0;
	assert_non_null(heap_map(&heap, HEAP_FIRST, &bytes));
	assert_int_equal(maps_visit(visit_of_file, &mapped), 0);
	assert_int_equal(mapped, page_bytes() + BYTES - HEAP_FIRST);
	heap_fini(&heap);
	mapped = 0;
	assert_int_equal(maps_visit(visit_of_file, &mapped), 0);
	assert_int_equal(mapped, 0);
}

/* The child of a fork has none of it: a window there would change the peer's memory. */
static void a_child_has_no_window(void **state)
{
	size_t bytes = 1;
	char *at = heap_map(&heap, HEAP_FIRST, &bytes);
	uint64_t mapped = 0;
	int status;
	pid_t child;

	assert_non_null(at);
	child = fork();
	if (!child) {
		int failed = maps_visit(visit_of_file, &mapped);

		heap_forget(&heap);
		_exit(failed ? 2 : mapped != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	*at = 1; /* is still there */
}

/* This process's own: by its descriptor. */
static void own_windows_need_no_way_there(void **state)
{
	int fd = fcntl(file, F_DUPFD_CLOEXEC, 0);
	uint64_t mapped = 0;
	size_t bytes = 1;
	struct heap own;
	char *at;

	heap_fini(&heap);
	heap_init_own(&own, fd);
	assert_int_equal(own.fd, fd);
	assert_int_equal(own.bytes, BYTES);
	assert_null(heap_map(&own, HEAP_FIRST - 1, &bytes));
	at = heap_map(&own, HEAP_FIRST, &bytes);
	assert_non_null(at);
	assert_true(heap_is_window(&own, (uintptr_t)at, HEAP_FIRST));
	assert_int_equal(maps_visit(visit_of_file, &mapped), 0);
	assert_int_equal(mapped, HEAP_WINDOW_BYTES - HEAP_FIRST);
	heap_fini(&own);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	mapped = 0;
	assert_int_equal(maps_visit(visit_of_file, &mapped), 0);
	assert_int_equal(mapped, 0);
}

/* The last window ends with the file: behind it an access raises SIGBUS. */
static void the_last_window_is_cut(void **state)
{
	size_t bytes = 1;
	char *at = heap_map(&heap, HEAP_WINDOW_BYTES, &bytes);

	assert_non_null(at);
	assert_int_equal(mapped_at(at), 4 * PAGE);
	assert_true(heap_is_window(&heap, (uintptr_t)at, HEAP_WINDOW_BYTES));
	assert_false(heap_is_window(&heap, (uintptr_t)at, HEAP_WINDOW_BYTES + PAGE));
	assert_false(heap_is_window(&heap, (uintptr_t)at, 2 * HEAP_WINDOW_BYTES));
	heap.wants[0] = (uintptr_t)at; /* behind the windows */
	assert_false(heap_is_window(&heap, (uintptr_t)at, HEAP_WINDOWS * HEAP_WINDOW_BYTES));
}

/* Another page size than ours, or a hostile owner: the rest of the last page reads as zeroes. */
static void a_file_may_end_within_a_page(void **state)
{
	struct heap peers;
	size_t bytes = 1;
	char *at;

	heap_init(&peers, make_file(0, F_SEAL_SHRINK | F_SEAL_GROW, HEAP_FIRST + 1));
	at = heap_map(&peers, HEAP_FIRST, &bytes);
	assert_non_null(at);
	*at = 1;
	assert_int_equal(mapped_at(at), page_bytes());
	assert_null(heap_map(&peers, HEAP_FIRST + 1, &bytes));
	heap_fini(&peers);
	assert_int_equal(mapped_at(at), 0);
}

/* A core file needs no memory of a peer, and none twice. */
static bool is_dumped(const char *at)
{
	char start[32], line[512];
	bool found = false, dumped = true;
	FILE *smaps = fopen("/proc/self/smaps", "re");

	assert_non_null(smaps);
	snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)at);
	while (fgets(line, sizeof(line), smaps)) {
		if (!strncmp(line, start, strlen(start)))
			found = true;
		if (found && !strncmp(line, "VmFlags:", 8)) {
			dumped = !strstr(line, " dd");
			break;
		}
	}
	fclose(smaps);
	assert_true(found);
	return dumped;
}

static void windows_are_not_dumped(void **state)
{
	struct heap own;
	size_t bytes = 1;

	assert_false(is_dumped(heap_map(&heap, HEAP_FIRST, &bytes)));
	assert_false(is_dumped(heap_map(&heap, HEAP_WINDOW_BYTES, &bytes)));
	heap_init_own(&own, fcntl(file, F_DUPFD_CLOEXEC, 0));
	assert_false(is_dumped(heap_map(&own, HEAP_FIRST, &bytes)));
	heap_fini(&own);
}

/* After a failure the window is tried again a moment later; but not our own. */
static void a_failed_window_is_tried_again(void **state)
{
	struct rlimit before, none;
	struct heap own;
	size_t bytes = 1;

	heap_init_own(&own, fcntl(file, F_DUPFD_CLOEXEC, 0));

	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_null(heap_map(&heap, HEAP_FIRST, &bytes));
	assert_null(heap_map(&own, HEAP_FIRST, &bytes));
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_null(heap_map(&heap, HEAP_FIRST, &bytes));
	assert_null(heap_map(&own, HEAP_FIRST, &bytes));
	heap.view.not_before_ns = clock_coarse_ns();
	assert_non_null(heap_map(&heap, HEAP_FIRST, &bytes));
	assert_non_null(heap_map(&heap, HEAP_WINDOW_BYTES, &bytes));
	heap_fini(&own);
}

/* The number of operations until migration pays; 0: it never does. */
static unsigned operations(uint32_t key, uint64_t length, size_t bytes)
{
	for (unsigned i = 1; i <= 8192; i++)
		if (heap_pays(&heap, key, length, bytes))
			return i;
	return 0;
}

static void migration_pays_after_some_operations(void **state)
{
	assert_int_equal(operations(KEY, 1 << 20, 1), 16);
	assert_int_equal(operations(KEY + 1, 1 << 20, 1 << 20), 4);
	assert_int_equal(operations(KEY + 2, 1 << 20, SIZE_MAX), 4); /* more than the region has */
	assert_int_equal(operations(KEY + 3, HEAP_REGION_MIN - 1, 64), 0);
	assert_int_equal(operations(KEY + 4, HEAP_REGION_MIN, 1), 16);
}

/* A peer that does not migrate, for whatever reason, is not asked with each operation. */
static void the_owner_is_not_asked_again_for_long(void **state)
{
	assert_int_equal(operations(KEY, 1 << 20, 1), 16);
	assert_true(heap_pays(&heap, KEY, 1 << 20, 1)); /* heap_asked was not called yet */
	heap_asked(&heap, KEY);
	assert_in_range(operations(KEY, 1 << 20, 1), 4096, 4096 + 16);
	heap_asked(&heap, KEY);
	for (unsigned i = 0; i < 800; i++)
		assert_false(heap_pays(&heap, KEY, 1 << 20, SIZE_MAX));

	/* Another key in its place begins anew. */
	assert_int_equal(operations(KEY ^ 0x80000000u, 1 << 20, 1), 16);
}

static void without_a_heap_nothing_pays(void **state)
{
	struct heap none;

	heap_init(&none, -1);
	for (int i = 0; i < 100; i++)
		assert_false(heap_pays(&none, KEY, 1 << 20, 1 << 20));
}

/* A region's bytes on pages that it shares with other memory stay where they are. */
static void edges_are_not_in_the_heap(void **state)
{
	struct arena_key entry = {
		.addr = 0x10000,
		.length = 4 * PAGE,
		.heap = 8 * PAGE,
		.heap_edges = 100 | 200u << 16,
	};
	static const struct {
		uint64_t at;
		size_t bytes;
		uint64_t place;
		size_t left;
	} rows[] = {
		{ 0, 50, 0, 50 },
		{ 0, 200, 0, 100 },
		{ 99, 2, 0, 1 },
		{ 100, 50, 8 * PAGE + 100, 50 },
		{ 4 * PAGE - 250, 250, 8 * PAGE + 4 * PAGE - 250, 50 },
		{ 4 * PAGE - 200, 200, 0, 200 },
		{ 4 * PAGE, 1, 0, 1 },
		{ UINT64_MAX, 1, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		size_t bytes = rows[i].bytes;

		assert_int_equal(heap_place(&entry, entry.addr + rows[i].at, &bytes),
				 rows[i].place);
		assert_int_equal(bytes, rows[i].left);
	}
}

static uint64_t blocks(void)
{
	struct stat st;

	assert_int_equal(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks;
}

/* A program that locks all that is mapped from now on: a window takes no memory all the same. */
static void check_locked(void (*init)(struct heap *heap, int fd))
{
	size_t bytes = 8;
	uint64_t before;
	struct heap locked;
	char *at;

	/* the sanitizers ignore the function */
	if (syscall(SYS_mlockall, MCL_FUTURE))
		skip();
	init(&locked, fcntl(file, F_DUPFD_CLOEXEC, 0));
	before = blocks(); /* the scratch is a page */
	at = heap_map(&locked, HEAP_FIRST + 5 * PAGE, &bytes);
	syscall(SYS_munlockall);
	if (!at && geteuid())
		skip(); /* a user's RLIMIT_MEMLOCK counts what is mapped */
	assert_non_null(at);
	assert_int_equal(blocks(), before);
	strcpy(at, "written");
	assert_int_equal(blocks(), before + PAGE / 512);
	heap_fini(&locked);
}

static void windows_take_no_memory(void **state)
{
	check_locked(heap_init);
}

static void own_windows_take_no_memory(void **state)
{
	check_locked(heap_init_own);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(files_that_may_shrink_are_refused),
		TEST(files_without_seals_are_refused),
		TEST(nothing_outside_of_the_file_is_mapped),
		TEST(bytes_behind_the_windows_are_not_mapped),
		TEST(a_piece_ends_with_its_window),
		TEST(the_last_window_is_cut),
		TEST(a_file_may_end_within_a_page),
		TEST(windows_are_not_dumped),
		TEST(a_failed_window_is_tried_again),
		TEST(nothing_else_is_mapped),
		TEST(a_child_has_no_window),
		TEST(own_windows_need_no_way_there),
		TEST(windows_take_no_memory),
		TEST(own_windows_take_no_memory),
		TEST(migration_pays_after_some_operations),
		TEST(the_owner_is_not_asked_again_for_long),
		TEST(without_a_heap_nothing_pays),
		TEST(edges_are_not_in_the_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
