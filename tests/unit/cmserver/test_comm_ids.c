/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers that cannot be foreseen, and tables that stay fast with hostile keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmserver/comm_ids.h"
#include "event/secret.h"
#include "event/table.h"

#define COUNT 50000

/* From the authors of SipHash: the key 00..0f; the bytes 00, 01, ..., as many as there are. */
static void test_hash_is_siphash(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} rows[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
		{ 7, UINT64_C(0xab0200f58b01d137) },  { 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) },
	};
	struct secret s = { { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) } };
	uint8_t bytes[15];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_true(secret_hash(&s, bytes, rows[i].len) == rows[i].hash);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Even if each is released at once, because other hosts may remember it. */
static void test_none_comes_twice(void **state)
{
	uint32_t *given = malloc(COUNT * sizeof(*given));
	struct comm_id one;
	struct comm_ids n;

	assert_int_equal(comm_ids_init(&n), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		comm_ids_add(&n, &one);
		given[i] = one.value;
		assert_ptr_equal(comm_ids_find(&n, given[i]), &one);
		comm_ids_remove(&n, &one);
		assert_null(comm_ids_find(&n, given[i]));
	}
	qsort(given, COUNT, sizeof(*given), compare);
	assert_int_not_equal(given[0], 0);
	for (unsigned i = 1; i < COUNT; i++)
		assert_int_not_equal(given[i], given[i - 1]);
	comm_ids_fini(&n);
	free(given);
}

static unsigned count_ones(uint32_t bits)
{
	return (unsigned)__builtin_popcount(bits);
}

/* Neither from those before it, nor from those of another daemon. */
static void test_none_is_foreseen(void **state)
{
	struct comm_id a[64], b[64];
	struct comm_ids one, other;
	unsigned between = 0, across = 0;

	assert_int_equal(comm_ids_init(&one), 0);
	assert_int_equal(comm_ids_init(&other), 0);
	for (unsigned i = 0; i < 64; i++) {
		comm_ids_add(&one, &a[i]);
		comm_ids_add(&other, &b[i]);
		across += count_ones(a[i].value ^ b[i].value);
		between += i ? count_ones(a[i].value ^ a[i - 1].value) : 16;
		for (unsigned j = 2; j <= i; j++)
			assert_int_not_equal(a[j].value - a[j - 1].value,
					     a[j - 1].value - a[j - 2].value);
	}
	/* Half of 64 times 32 bits are expected to change; this is ten standard deviations. */
	assert_in_range(between, 1024 - 230, 1024 + 230);
	assert_in_range(across, 1024 - 230, 1024 + 230);
	for (unsigned i = 0; i < 64; i++) {
		comm_ids_remove(&one, &a[i]);
		comm_ids_remove(&other, &b[i]);
	}
	comm_ids_fini(&one);
	comm_ids_fini(&other);
}

static size_t longest_chain(const struct table *t)
{
	struct list *m;

	size_t longest = 0;

	for (size_t i = 0; i < t->bucket_count; i++) {
		size_t length = 0;

		list_for_each(m, &t->buckets[i])
			length++;
		if (length > longest)
			longest = length;
	}
	return longest;
}

static void test_a_table_grows_with_its_members(void **state)
{
	struct comm_id *all = calloc(COUNT, sizeof(*all));
	struct comm_ids n;

	assert_int_equal(comm_ids_init(&n), 0);
	for (unsigned i = 0; i < COUNT; i++)
		comm_ids_add(&n, &all[i]);
	assert_int_equal(n.table.count, COUNT);
	assert_true(n.table.bucket_count >= COUNT);
	assert_true(longest_chain(&n.table) < 16);
	for (unsigned i = 0; i < COUNT; i++) {
		assert_ptr_equal(comm_ids_find(&n, all[i].value), &all[i]);
		comm_ids_remove(&n, &all[i]);
		comm_ids_remove(&n, &all[i]);
	}
	assert_int_equal(n.table.count, 0);
	comm_ids_fini(&n);
	free(all);
}

/* A host that names its connections so that they would share a bucket. */
static void test_a_peer_chooses_no_bucket(void **state)
{
	struct table_entry *all = calloc(COUNT, sizeof(*all));
	struct secret s;
	struct table t;

	assert_int_equal(secret_init(&s), 0);
	assert_int_equal(table_init(&t), 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t name = i << 16;

		table_entry_init(&all[i]);
		name |= i >> 16;
		table_add(&t, &all[i], secret_hash(&s, &name, sizeof(name)));
	}
	assert_true(longest_chain(&t) < 16);
	for (unsigned i = 0; i < COUNT; i++)
		table_remove(&t, &all[i]);
	table_fini(&t);
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash_is_siphash),
		cmocka_unit_test(test_none_comes_twice),
		cmocka_unit_test(test_none_is_foreseen),
		cmocka_unit_test(test_a_table_grows_with_its_members),
		cmocka_unit_test(test_a_peer_chooses_no_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
