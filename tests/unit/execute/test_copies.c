/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of what READs brought: which parts are there, in a ring that wraps, with PSNs that wrap.
 */
#include "execute/copies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MTU  1024
#define RKEY 0x1234
#define VA   0x10000000ull

static struct copies *copies;
static uint8_t bytes[64 * MTU], expected[64 * MTU];

static int setup(void **state)
{
	copies_start(&copies, MTU);
	assert_non_null(copies);
	return 0;
}

static int teardown(void **state)
{
	copies_fini(&copies);
	assert_null(copies);
	return 0;
}

/* A READ's address follows from its PSN, its data from both. */
static struct copied_read part(uint32_t psn, uint32_t length)
{
	uint32_t packets = length ? (length - 1) / MTU + 1 : 1;

	return (struct copied_read){ psn_of(psn), psn_of(psn + packets), RKEY, length,
				     VA + (uint64_t)((psn + 0x1000) & PSN_MASK) * MTU };
}

static void fill(uint8_t *to, uint32_t psn, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		to[i] = (uint8_t)((psn + i / MTU) * 31 + i);
}

static void add(uint32_t psn, uint32_t length, bool first)
{
	const struct copied_read all = part(psn, length);

	fill(bytes, psn, length);
	copies_add(copies, &all, first, bytes);
}

static bool has(uint32_t psn, uint32_t length)
{
	const struct copied_read wanted = part(psn, length);

	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(copies_get(copies, &wanted, bytes), copies_have(copies, &wanted));
	if (!copies_have(copies, &wanted))
		return false;
	fill(expected, psn, length);
	assert_memory_equal(bytes, expected, length);
	return true;
}

/* Two READs, the first one added in two steps, at PSNs that wrap. */
static void test_parts(void **state)
{
	struct copied_read other;

	add(0xfffffe, 3 * MTU, true);
	add(0x000001, MTU + 10, false);
	add(0x000003, 2 * MTU, true);
	assert_true(has(0xfffffe, 4 * MTU + 10) && has(0xffffff, 2 * MTU));
	assert_true(has(0x000001, MTU + 10) && has(0x000002, 10) && has(0x000003, 2 * MTU));
	/* beyond its end, beyond its beginning, a packet that is cut short */
	assert_false(has(0xfffffe, 5 * MTU) || has(0x000002, MTU + 10) || has(0x000003, 3 * MTU));
	assert_false(has(0xfffffd, 2 * MTU) || has(0x000005, MTU) || has(0x000002, 9));
	assert_false(has(0xffffff, 10) || has(0xffffff, 0));
	other = part(0xffffff, MTU);
	other.rkey++;
	assert_false(copies_have(copies, &other));
	other = part(0xffffff, MTU);
	other.va++;
	assert_false(copies_have(copies, &other));
	assert_false(copies_have(NULL, &other));
}

static void test_empty_read(void **state)
{
	add(5, 0, true);
	add(6, MTU, true);
	assert_true(has(5, 0) && has(6, MTU));
	assert_false(has(5, 10) || has(6, 0));
}

/* From a PSN on, in the middle of a READ or at its beginning. */
static void test_drop(void **state)
{
	add(0, 4 * MTU, true);
	add(4, 4 * MTU, true);
	copies_drop(copies, psn_of(6));
	assert_true(has(0, 4 * MTU) && has(4, 2 * MTU));
	assert_false(has(6, MTU) || has(5, 2 * MTU));
	copies_drop(copies, psn_of(4));
	assert_true(has(3, MTU));
	assert_false(has(4, MTU));
	add(2, MTU, false); /* what is there from there on was not sent */
	assert_true(has(0, 3 * MTU));
	assert_false(has(3, MTU));
	copies_drop(copies, psn_of(0));
	assert_false(has(0, MTU));
	copies_drop(NULL, psn_of(0));
}

/* Many READs of any length: the last ones are there, as much as there is room for. */
static void test_ring(void **state)
{
	uint32_t psn = 0xffff00, starts[512], lengths[512];

	srand(3);
	for (unsigned i = 0; i < 512; i++) {
		starts[i] = psn;
		lengths[i] = (uint32_t)rand() % (40 * MTU) + 1;
		add(psn, lengths[i], true);
		psn += (lengths[i] - 1) / MTU + 1;
		for (unsigned j = i; j + 20 > i && j < 512; j--)
			assert_true(has(starts[j], lengths[j]));
		assert_true(copies->until - copies->from <= COPIES_BYTES);
	}
	assert_false(has(starts[300], lengths[300]));
}

/* Of one-byte READs no more than COPIES_PSNS, and none that is 2^23 PSNs old. */
static void test_psns(void **state)
{
	for (uint32_t i = 0; i < 3 * COPIES_PSNS; i++)
		add(i, 1, true);
	assert_true(has(2 * COPIES_PSNS, 1) && has(3 * COPIES_PSNS - 1, 1));
	assert_false(has(2 * COPIES_PSNS - 1, 1));
	add(3 * COPIES_PSNS + 0x900000, 1, true);
	assert_int_equal(copies->tail - copies->head, 1);
}

static void test_number_of_tables(void **state)
{
	struct copies *tables[COPIES_PROCESS_MAX] = { NULL };

	for (unsigned i = 0; i < COPIES_PROCESS_MAX; i++)
		copies_start(&tables[i], MTU);
	assert_non_null(tables[COPIES_PROCESS_MAX - 2]);
	assert_null(tables[COPIES_PROCESS_MAX - 1]); /* `copies` is one */
	for (unsigned i = 0; i < COPIES_PROCESS_MAX; i++)
		copies_fini(&tables[i]);
}

/* A child has all tables, whatever its parent had. */
static void test_fork(void **state)
{
	struct copies *tables[COPIES_PROCESS_MAX] = { NULL };
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		copies_reset_after_fork();
		for (unsigned i = 0; i < COPIES_PROCESS_MAX; i++)
			copies_start(&tables[i], MTU);
		_exit(tables[COPIES_PROCESS_MAX - 1] && tables[0] != copies ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
		TEST(parts), TEST(empty_read),	     TEST(drop), TEST(ring),
		TEST(psns),  TEST(number_of_tables), TEST(fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
