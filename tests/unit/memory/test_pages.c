/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pages of a region migrate, and where its bytes are then, with pages as long as the argument
 * says: sysconf is wrapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/page.h"
#include "memory/heap.h"
#include "memory/range.h"

#define AT 0x40000000ull /* a multiple of each page */

static unsigned long long page;

long __real_sysconf(int name);
long __wrap_sysconf(int name);

/* A sanitizer's runtime calls it, too, also before main. */
long __wrap_sysconf(int name)
{
	return name == _SC_PAGESIZE && page ? (long)page : __real_sysconf(name);
}

static void pages_are_as_long_as_told(void **state)
{
	assert_int_equal(page_bytes(), page);
	assert_int_equal(page_round_up(1), page);
	assert_int_equal(page_round_up(page), page);
	assert_int_equal(page_round_up(page + 1), 2 * page);
}

/* Only whole pages migrate. */
static void whole_pages_are_found(void **state)
{
	struct {
		uint64_t addr, length, start, end; /* start == end: none */
	} rows[] = {
		{ AT, page, AT, AT + page },
		{ AT, 3 * page, AT, AT + 3 * page },
		{ AT, page - 1, 0, 0 },
		{ AT + 1, page, 0, 0 },
		{ AT + 4096, 2 * page - 4096, AT + page, AT + 2 * page },
		{ AT + 1, 3 * page - 2, AT + page, AT + 2 * page },
		{ AT - 1, page + 2, AT, AT + page },
	};

	if (page == 4096)
		rows[4] = rows[3]; /* it begins with a page */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct arena_key entry = { .addr = rows[i].addr, .length = rows[i].length };
		uintptr_t start, end;
		bool any = range_find_pages(&entry, &start, &end);

		assert_int_equal(any, rows[i].start != rows[i].end);
		if (!any)
			continue;
		assert_int_equal(start, rows[i].start);
		assert_int_equal(end, rows[i].end);
	}
}

/* The edges, at most a page less a byte long, are not in the heap; all between is. */
static void edges_stay(void **state)
{
	struct arena_key entry = { .addr = AT + 1, .length = 4 * page - 2 };
	struct range range = { .offset = HEAP_FIRST };
	uint64_t first = page - 1, last = entry.length - (page - 1);
	size_t bytes;

	assert_true(range_find_pages(&entry, &range.start, &range.end));
	assert_int_equal(range.end - range.start, 2 * page);
	range_publish(&range, &entry);

	bytes = entry.length;
	assert_int_equal(heap_place(&entry, entry.addr, &bytes), 0);
	assert_int_equal(bytes, first);
	bytes = entry.length;
	assert_int_equal(heap_place(&entry, entry.addr + first, &bytes), HEAP_FIRST);
	assert_int_equal(bytes, 2 * page);
	bytes = 1;
	assert_int_equal(heap_place(&entry, entry.addr + last - 1, &bytes),
			 HEAP_FIRST + 2 * page - 1);
	assert_int_equal(heap_place(&entry, entry.addr + last, &bytes), 0);
}

/*
 * Places in the heap can be mapped, and the page behind a range belongs to none; fifteen behind one
 * of one page.
 */
static void places_are_whole_pages(void **state)
{
	struct range *made[3];

	lock_acquire(&range_lock);
	for (int i = 0; i < 3; i++) {
		struct range range = { .start = AT + (unsigned)i * 8 * page };

		range.end = range.start + (unsigned)(i + 1) * page;
		assert_true(range_insert(&range, 1ull << 30, &made[i]));
		assert_int_equal(made[i]->offset % page, 0);
		if (i)
			assert_int_equal(made[i]->offset,
					 made[i - 1]->offset + (i == 1 ? 16 : 3) * page);
	}
	lock_release(&range_lock);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_as_long_as_told),
		cmocka_unit_test(whole_pages_are_found),
		cmocka_unit_test(edges_stay),
		cmocka_unit_test(places_are_whole_pages),
	};

	page = argc > 1 ? strtoull(argv[1], NULL, 10) : 65536;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
