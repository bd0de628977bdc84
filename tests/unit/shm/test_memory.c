/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies: their order and bounds, SGE lists at all offsets, and memory that is not there. */
#include "rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory/hazard.h"
#include "memory/memory.h"

#define CANARY 0xc5
#define ROOM   96
#define PAGE   4096

static int setup(void **state)
{
	static struct rig rig;

	rig_create(&rig);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	rig_destroy(*state);
	return 0;
}

static uint8_t byte_of(size_t i)
{
	return (uint8_t)(i * 7 + 1);
}

/* Only [begin, begin + bytes) of the room was written, and with what it should be. */
static void expect_copied(const uint8_t *room, size_t size, size_t begin, size_t bytes,
			  size_t first)
{
	for (size_t i = 0; i < size; i++) {
		bool inside = i >= begin && i < begin + bytes;

		if (room[i] != (inside ? byte_of(first + i - begin) : CANARY))
			fail_msg("byte %zu after a copy of %zu to %zu", i, bytes, begin);
	}
}

typedef void copier(void *to, const void *from, size_t bytes);

static void copy_to(void *to, const void *from, size_t bytes)
{
	assert_int_equal(memory_copy_to((uintptr_t)to, from, bytes), 0);
}

static void copy_from(void *to, const void *from, size_t bytes)
{
	assert_int_equal(memory_copy_from(to, (uintptr_t)from, bytes), 0);
}

static void copy_all(copier *copy, size_t from_step)
{
	uint8_t source[ROOM];
	_Alignas(64) uint8_t room[ROOM];

	for (size_t i = 0; i < ROOM; i++)
		source[i] = byte_of(i);
	for (size_t to = 0; to < 16; to++)
		for (size_t from = 0; from < 16; from += from_step)
			for (size_t bytes = 0; bytes <= 64; bytes++) {
				memset(room, CANARY, ROOM);
				copy(room + 8 + to, source + from, bytes);
				expect_copied(room, ROOM, 8 + to, bytes, from);
			}
}

static void test_copies_at_all_alignments_and_sizes(void **state)
{
	copy_all(memory_copy_ordered, 1);
	copy_all(copy_to, 5);
	copy_all(copy_from, 5);
}

/* The page after the last one is not mapped: a copy of one byte too much raises SIGSEGV. */
static void test_copies_up_to_the_edge_of_a_page(void **state)
{
	uint8_t *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t source[64];

	assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = byte_of(i);
	for (size_t bytes = 0; bytes <= 64; bytes++) {
		memset(pages + PAGE - 64, 0, 64);
		memory_copy_ordered(pages + PAGE - bytes, source, bytes);
		assert_memory_equal(pages + PAGE - bytes, source, bytes);
		assert_int_equal(memory_copy_to((uintptr_t)pages + PAGE - bytes, source, bytes), 0);
		assert_int_equal(memory_copy_from(source, (uintptr_t)pages + PAGE - bytes, bytes),
				 0);
	}
	munmap(pages, 2 * PAGE);
}

static void test_bad_memory_is_an_error(void **state)
{
	uint8_t *pages =
		mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t here[64] = { 0 };
	uint64_t bad[] = { 0,
			   8,
			   (uintptr_t)pages + PAGE,
			   (uintptr_t)pages + PAGE - 1,
			   (uintptr_t)pages + PAGE - 63,
			   (uintptr_t)pages + 2 * PAGE - 64,
			   1ull << 47,
			   1ull << 63,
			   UINT64_MAX - 64,
			   UINT64_MAX - 63,
			   UINT64_MAX };

	assert_int_equal(munmap(pages + PAGE, PAGE), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct iovec piece = { (void *)(uintptr_t)bad[i], 64 };

		assert_int_equal(memory_copy_to(bad[i], here, 64), -EFAULT);
		assert_int_equal(memory_copy_from(here, bad[i], 64), -EFAULT);
		if (bad[i] < 1ull << 48) /* the end of the piece is an address */
			assert_false(memory_probe(&piece, 1));
	}
	/* Readable, but not to be written. */
	assert_int_equal(mprotect(pages, PAGE, PROT_READ), 0);
	assert_int_equal(memory_copy_to((uintptr_t)pages, here, 64), -EFAULT);
	assert_int_equal(memory_copy_from(here, (uintptr_t)pages, 64), 0);
	munmap(pages, 3 * PAGE);
}

static void test_probe_looks_at_every_page(void **state)
{
	uint8_t *pages =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int hole = 0; hole < 4; hole++) {
		struct iovec pieces[2] = { { pages, 1 }, { pages + PAGE - 1, 2 * PAGE + 2 } };

		mprotect(pages, 4 * PAGE, PROT_READ | PROT_WRITE);
		assert_true(memory_probe(pieces, 2));
		mprotect(pages + hole * PAGE, PAGE, PROT_NONE);
		assert_false(memory_probe(pieces, 2));
	}
	assert_true(memory_probe(NULL, 0));
	munmap(pages, 4 * PAGE);
}

/* Three SGEs, one of them empty, in two regions; the bytes between them must not change. */
struct lists {
	uint8_t memory[256];
	struct mr *front, *back;
	struct ibv_sge sge[4];
	uint8_t *at[64]; /* where byte i of the list is */
	size_t total;
};

static void lists_create(struct lists *lists, struct rig *rig, uint32_t access)
{
	static const uint8_t places[4][2] = { { 3, 13 }, { 50, 0 }, { 129, 24 }, { 171, 9 } };

	lists->front = rig_mr(rig, lists->memory, 128, access);
	lists->back = rig_mr(rig, lists->memory + 128, 128, access);
	lists->total = 0;
	for (int i = 0; i < 4; i++) {
		uint8_t *begin = lists->memory + places[i][0];

		lists->sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)begin,
			.length = places[i][1],
			.lkey = places[i][0] < 128 ? lists->front->ib.lkey : lists->back->ib.lkey,
		};
		for (int n = 0; n < places[i][1]; n++)
			lists->at[lists->total++] = begin + n;
	}
	lists->sge[1].lkey = 0xdeadbeef; /* an empty one needs no key */
}

static void lists_destroy(struct lists *lists)
{
	assert_int_equal(mr_destroy(lists->front), 0);
	assert_int_equal(mr_destroy(lists->back), 0);
}

static void expect_scattered(struct lists *lists, size_t offset, size_t bytes)
{
	uint8_t expected[sizeof(lists->memory)];

	memset(expected, CANARY, sizeof(expected));
	for (size_t i = 0; i < bytes; i++)
		expected[lists->at[offset + i] - lists->memory] = byte_of(i);
	assert_memory_equal(lists->memory, expected, sizeof(expected));
}

static void scatter_and_gather(struct rig *rig, uint32_t access)
{
	uint8_t flat[64], room[ROOM];
	uint32_t pd = rig->pd->number;
	struct lists lists;

	lists_create(&lists, rig, access);
	for (size_t i = 0; i < sizeof(flat); i++)
		flat[i] = byte_of(i);
	assert_int_equal(memory_check(lists.sge, 4, pd, IBV_ACCESS_LOCAL_WRITE), CAUSE_NONE);
	for (size_t offset = 0; offset <= lists.total; offset++)
		for (size_t bytes = 0; bytes <= lists.total - offset; bytes++) {
			memset(lists.memory, CANARY, sizeof(lists.memory));
			assert_int_equal(memory_scatter(lists.sge, 4, pd, offset, flat, bytes),
					 CAUSE_NONE);
			expect_scattered(&lists, offset, bytes);
			memset(room, CANARY, sizeof(room));
			assert_int_equal(memory_gather(lists.sge, 4, pd, offset, room + 16, bytes),
					 CAUSE_NONE);
			expect_copied(room, sizeof(room), 16, bytes, 0);
		}
	lists_destroy(&lists);
}

static void test_scatter_and_gather_at_all_offsets(void **state)
{
	scatter_and_gather(*state, IBV_ACCESS_LOCAL_WRITE);
	scatter_and_gather(*state, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
}

/* Of one key, which nobody can end meanwhile; *bytes: of the rest of the list, then of the pieces.
 */
static void check_pieces(const struct lists *lists, uint32_t pd, size_t at, size_t *bytes)
{
	struct arena_hazard *hazard;
	struct iovec iov[4];
	size_t wanted = *bytes, front = at < 13 ? 13 - at : 0, end;
	enum cause cause;
	int count = memory_pieces(lists->sge, 4, pd, 0, at, bytes, iov, 4, &hazard, &cause);

	assert_int_equal(cause, CAUSE_NONE);
	assert_int_equal(*bytes, front && front < wanted ? front : wanted);
	assert_int_not_equal(hazard_owner(front ? lists->front->ib.lkey : lists->back->ib.lkey), 0);
	hazard_clear(hazard);
	end = at + *bytes;
	for (int i = 0; i < count; i++) {
		assert_ptr_equal(iov[i].iov_base, lists->at[at]);
		at += iov[i].iov_len;
	}
	assert_int_equal(at, end);
}

static void test_pieces_at_all_offsets(void **state)
{
	struct rig *rig = *state;
	uint32_t pd = rig->pd->number;
	struct lists lists;
	enum cause cause;

	lists_create(&lists, rig, IBV_ACCESS_LOCAL_WRITE);
	for (size_t offset = 0; offset <= lists.total; offset++)
		for (size_t bytes = 0; bytes <= lists.total - offset; bytes++) {
			size_t at = offset, n;

			assert_true(memory_check_part(lists.sge, 4, pd, 0, offset, bytes, &cause));
			for (; at < offset + bytes; at += n) {
				n = offset + bytes - at;
				check_pieces(&lists, pd, at, &n);
			}
		}
	lists_destroy(&lists);
}

static void test_bad_lists(void **state)
{
	struct rig *rig = *state;
	uint8_t flat[64] = { 0 };
	uint32_t pd = rig->pd->number;
	struct arena_hazard *hazard;
	struct iovec iov[4];
	struct lists lists;
	enum cause cause;
	size_t bytes;

	struct {
		uint32_t lkey, access, pd;
		int64_t addr;
		uint32_t length;
		enum cause expected;
	} rows[] = {
		{ 0, IBV_ACCESS_LOCAL_WRITE, pd, 0, 24, CAUSE_LKEY_UNKNOWN },
		{ 0xdeadbeef, IBV_ACCESS_LOCAL_WRITE, pd, 0, 24, CAUSE_LKEY_UNKNOWN },
		{ 1, IBV_ACCESS_LOCAL_WRITE, pd + 1, 0, 24, CAUSE_LKEY_PD },
		{ 1, IBV_ACCESS_LOCAL_WRITE, pd, -2, 24, CAUSE_LKEY_RANGE },
		{ 1, IBV_ACCESS_LOCAL_WRITE, pd, 104, 24, CAUSE_LKEY_RANGE },
		{ 1, IBV_ACCESS_LOCAL_WRITE, pd, 0, UINT32_MAX, CAUSE_LKEY_RANGE },
		{ 1, IBV_ACCESS_LOCAL_WRITE, pd, INT64_MIN, 24, CAUSE_LKEY_RANGE },
		{ 1, 0, pd, 0, 24, CAUSE_LKEY_ACCESS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_sge *sge = &lists.sge[2];

		lists_create(&lists, rig, rows[i].access);
		if (rows[i].lkey != 1)
			sge->lkey = rows[i].lkey;
		sge->addr += (uint64_t)rows[i].addr;
		sge->length = rows[i].length;
		memset(lists.memory, CANARY, sizeof(lists.memory));
		assert_int_equal(memory_check(lists.sge, 4, rows[i].pd, IBV_ACCESS_LOCAL_WRITE),
				 rows[i].expected);
		assert_int_equal(memory_scatter(lists.sge, 4, rows[i].pd, 13, flat, 24) ==
					 CAUSE_NONE,
				 rows[i].length == UINT32_MAX);
		bytes = rows[i].length;
		assert_int_equal(memory_pieces(lists.sge, 4, rows[i].pd, IBV_ACCESS_LOCAL_WRITE, 13,
					       &bytes, iov, 4, &hazard, &cause),
				 0);
		assert_int_equal(cause, rows[i].expected);
		assert_false(memory_check_part(lists.sge, 4, rows[i].pd, IBV_ACCESS_LOCAL_WRITE, 13,
					       rows[i].length, &cause));
		assert_int_equal(cause, rows[i].expected);
		lists_destroy(&lists);
	}
}

/* A region whose pages went away, or never were: what the program may do with on-demand memory. */
static void test_on_demand_memory_that_is_not_there(void **state)
{
	struct rig *rig = *state;
	uint8_t *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = rig_mr(rig, pages, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { .addr = (uintptr_t)pages, .length = 2 * PAGE, .lkey = mr->ib.lkey };
	uint8_t flat[128] = { 0 };
	uint32_t pd = rig->pd->number;

	munmap(pages + PAGE, PAGE);
	assert_int_equal(memory_scatter(&sge, 1, pd, PAGE - 64, flat, 64), CAUSE_NONE);
	assert_int_equal(memory_scatter(&sge, 1, pd, PAGE - 64, flat, 65),
			 CAUSE_MEMORY_FAULT_LOCAL);
	assert_int_equal(memory_gather(&sge, 1, pd, PAGE - 64, flat, 65), CAUSE_MEMORY_FAULT_LOCAL);
	assert_int_equal(memory_gather(&sge, 1, pd, PAGE, flat, 128), CAUSE_MEMORY_FAULT_LOCAL);
	mprotect(pages, PAGE, PROT_READ);
	assert_int_equal(memory_scatter(&sge, 1, pd, 0, flat, 64), CAUSE_MEMORY_FAULT_LOCAL);
	assert_int_equal(memory_gather(&sge, 1, pd, 0, flat, 64), CAUSE_NONE);
	assert_int_equal(mr_destroy(mr), 0);
	munmap(pages, PAGE);
}

static void test_null_region_reads_zeroes_and_swallows(void **state)
{
	struct rig *rig = *state;
	struct mr_spec spec = {
		.pd = rig->pd,
		.length = SIZE_MAX,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.null = true,
	};
	uint8_t flat[64];
	struct ibv_sge sge = { .addr = 12345, .length = 64 };
	struct arena_hazard *hazard;
	struct iovec iov[1];
	enum cause cause;
	size_t bytes = 64;
	struct mr *mr;

	assert_int_equal(mr_create(&spec, &mr), 0);
	sge.lkey = mr->ib.lkey;
	memset(flat, CANARY, sizeof(flat));
	assert_int_equal(memory_scatter(&sge, 1, rig->pd->number, 0, flat, 64), CAUSE_NONE);
	assert_int_equal(memory_gather(&sge, 1, rig->pd->number, 8, flat + 8, 16), CAUSE_NONE);
	for (size_t i = 0; i < sizeof(flat); i++)
		assert_int_equal(flat[i], i >= 8 && i < 24 ? 0 : CANARY);
	assert_int_equal(
		memory_pieces(&sge, 1, rig->pd->number, 0, 0, &bytes, iov, 1, &hazard, &cause), 0);
	assert_int_equal(cause, CAUSE_NONE);
	assert_false(memory_check_part(&sge, 1, rig->pd->number, 0, 0, 64, &cause));
	assert_int_equal(cause, CAUSE_NONE);
	assert_int_equal(mr_destroy(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_at_all_alignments_and_sizes),
		cmocka_unit_test(test_copies_up_to_the_edge_of_a_page),
		cmocka_unit_test(test_bad_memory_is_an_error),
		cmocka_unit_test(test_probe_looks_at_every_page),
		cmocka_unit_test(test_scatter_and_gather_at_all_offsets),
		cmocka_unit_test(test_pieces_at_all_offsets),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_on_demand_memory_that_is_not_there),
		cmocka_unit_test(test_null_region_reads_zeroes_and_swallows),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
