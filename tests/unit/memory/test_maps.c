/* SPDX-License-Identifier: BSD-2-Clause */
/* What /proc/self/maps says of a mapping, and lines that do not fit: long names, long lines. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory/maps.h"

#define PAGE	    4096
#define NAME_MAX_IN (sizeof(((struct mapping *)0)->name) - 1)

struct search {
	uintptr_t start;
	struct mapping found;
	int visits, after; /* mappings seen in all, and since it was found */
};

static bool look(const struct mapping *mapping, void *arg)
{
	struct search *search = arg;

	search->visits++;
	search->after += search->found.start != 0;
	if (mapping->start == search->start)
		search->found = *mapping;
	return true;
}

static int count_lines(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), lines = 0;
	char part[4096];
	ssize_t n;

	assert_true(fd >= 0);
	while ((n = read(fd, part, sizeof(part))) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += part[i] == '\n';
	close(fd);
	return lines;
}

/* Each line is one mapping. */
static struct search find(const void *address)
{
	struct search search = { .start = (uintptr_t)address };

	assert_int_equal(maps_visit(look, &search), 0);
	assert_int_equal(search.visits, count_lines());
	return search;
}

/* The second page of a file, and what is said of it. */
static struct mapping map_and_find(int fd)
{
	struct search search;
	void *address;

	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	address = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, PAGE);
	assert_ptr_not_equal(address, MAP_FAILED);
	search = find(address);
	assert_true(search.found.end == search.found.start + PAGE);
	assert_true(search.after > 0); /* the stack comes behind */
	munmap(address, PAGE);
	return search.found;
}

static void expect_file(int fd, const struct mapping *found)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(found->inode, st.st_ino);
	assert_int_equal(found->device, st.st_dev);
	assert_int_equal(found->offset, PAGE);
	assert_string_equal(found->rights, "r--p");
}

/* Names shorter than the field, as long as it, and longer: cut, and always a string. */
static void names_are_cut(void **state)
{
	char name[64] = "";

	/* "/memfd:" before it, " (deleted)" behind it */
	for (size_t length = 0; length < 2 * NAME_MAX_IN; length++, name[length - 1] = 'x') {
		int fd = memfd_create(name, MFD_CLOEXEC);
		struct mapping found = map_and_find(fd);
		char whole[100];

		snprintf(whole, sizeof(whole), "/memfd:%s (deleted)", name);
		whole[NAME_MAX_IN] = 0;
		assert_int_equal(strnlen(found.name, sizeof(found.name)), strlen(whole));
		assert_string_equal(found.name, whole);
		expect_file(fd, &found);
		close(fd);
	}
}

static void short_names_are_whole(void **state)
{
	void *address = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mapping found = find(address).found;

	assert_string_equal(found.name, "/dev/zero (dele");
	assert_string_equal(found.rights, "r-xs");
	munmap(address, PAGE);
	address = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	found = find(address).found;
	assert_int_equal(found.start, (uintptr_t)address);
	assert_string_equal(found.name, "");
	assert_string_equal(found.rights, "---p");
	assert_int_equal(found.inode, 0);
	munmap(address, PAGE);
}

/*
 * A directory in another, and so on, until the path of a file is this long. Stays in the last. The
 * file's name looks like the beginning of a line, wherever it is cut.
 */
static int make_deep_file(size_t path_bytes)
{
	char step[NAME_MAX + 1], path[2 * PATH_MAX];
	size_t left = path_bytes - strlen(getcwd(path, sizeof(path)));

	while (left) {
		size_t length = left > 200 ? 100 : left - 1;

		memset(step, 'd', length);
		step[length] = 0;
		left -= length + 1;
		for (size_t i = 0; !left && i < length; i++)
			step[i] = "0-0 "[(i + path_bytes / 10) % 4];
		if (!left)
			return open(step, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(mkdir(step, 0700), 0);
		assert_int_equal(chdir(step), 0);
	}
	return -1;
}

/* Around what is read at once, 4 KiB: the line is known by its beginning, the next by itself. */
static void lines_may_be_longer_than_the_buffer(void **state)
{
	for (size_t path = 3900; path <= 4090; path += 10) {
		char directory[] = "/tmp/verbatim-maps.XXXXXX", command[100];
		struct mapping found;
		int fd;

		assert_non_null(mkdtemp(directory));
		assert_int_equal(chdir(directory), 0);
		fd = make_deep_file(path);
		assert_true(fd >= 0);
		found = map_and_find(fd);
		expect_file(fd, &found);
		assert_int_equal(strlen(found.name), NAME_MAX_IN);
		assert_memory_equal(found.name, directory, NAME_MAX_IN);
		close(fd);
		assert_int_equal(chdir("/"), 0);
		snprintf(command, sizeof(command), "rm -r '%s'", directory);
		assert_int_equal(system(command), 0);
	}
}

static bool stop_at_third(const struct mapping *mapping, void *arg)
{
	int *visits = arg;

	return ++*visits < 3;
}

static void visits_end_when_told(void **state)
{
	int visits = 0;

	assert_int_equal(maps_visit(stop_at_third, &visits), 0);
	assert_int_equal(visits, 3);
}

static void numbers_in_their_base(void **state)
{
	static const struct {
		const char *text;
		unsigned base;
		uint64_t value;
		char next;
	} rows[] = {
		{ "7fff12345678-", 16, 0x7fff12345678, '-' },
		{ "ffffffffff600000 ", 16, 0xffffffffff600000, ' ' },
		{ "09afg", 16, 0x9af, 'g' },
		{ "1029a", 10, 1029, 'a' },
		{ "1028", 8, 0102, '8' },
		{ ":1", 16, 0, ':' },
		{ "/1", 10, 0, '/' },
		{ "", 10, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *at = rows[i].text;

		assert_int_equal(maps_number(&at, rows[i].base), rows[i].value);
		assert_int_equal(*at, rows[i].next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_cut),
		cmocka_unit_test(short_names_are_whole),
		cmocka_unit_test(lines_may_be_longer_than_the_buffer),
		cmocka_unit_test(visits_end_when_told),
		cmocka_unit_test(numbers_in_their_base),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
