/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"
#include "memory/range.h"

static void *arena;

static int set_up(void **state)
{
	arena = harness_arena();
	return 0;
}

static void keys_carry_their_index(void **state)
{
	for (int i = 0; i < 100; i++) {
		uint32_t index, key;

		assert_int_equal(key_alloc(&index, &key), 0);
		assert_int_not_equal(index, 0);
		assert_int_not_equal(key, 0);
		assert_int_equal(KEY_INDEX(key), index);
		key_free(index);
	}
}

/* Many keys do not tell the chance bits of the next: each bit is 1 about half the time. */
static void keys_are_not_guessable(void **state)
{
	enum { KEYS = 4096 };
	unsigned ones[32] = { 0 };
	uint32_t index, key;

	for (int i = 0; i < KEYS; i++) {
		assert_int_equal(key_alloc(&index, &key), 0);
		for (int bit = 0; bit < 32; bit++)
			ones[bit] += key >> bit & 1;
		key_free(index);
	}
	for (int bit = 0; bit < 32; bit++) {
		if (bit >= 8 && bit < 24)
			continue; /* the index */
		/* 10 standard deviations: 32 each */
		assert_in_range(ones[bit], KEYS / 2 - 320, KEYS / 2 + 320);
	}
}

static void a_freed_key_is_not_reused_at_once(void **state)
{
	uint32_t index, key, other_index, other;

	assert_int_equal(key_alloc(&index, &key), 0);
	key_free(index);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(key_alloc(&other_index, &other), 0);
		assert_int_not_equal(other_index, index);
		assert_int_not_equal(other, key);
		key_free(other_index);
	}
}

static void all_indexes_can_be_given_and_then_no_more(void **state)
{
	static uint32_t given[ARENA_KEYS];
	static uint8_t seen[ARENA_KEYS];
	uint32_t index, key, count = 0;

	while (key_alloc(&index, &key) == 0) {
		assert_in_range(index, 1, ARENA_KEYS - 1);
		assert_int_equal(seen[index], 0);
		seen[index] = 1;
		given[count++] = index;
	}
	assert_int_equal(count, ARENA_KEYS - 1);
	assert_int_equal(key_alloc(&index, &key), -ENOMEM);
	for (uint32_t i = 0; i < count; i++)
		key_free(given[i]);
	assert_int_equal(key_alloc(&index, &key), 0);
	assert_int_equal(index, given[0]); /* the one released first */
	key_free(index);
}

static void a_revoked_key_is_unknown(void **state)
{
	uint32_t index, key, flags;
	uint64_t host;

	assert_int_equal(key_alloc(&index, &key), 0);
	*key_entry(index) = (struct arena_key){ .start = 64, .length = 64, .pd = 1 };
	assert_int_equal(key_check(key_table(), key, 1, 0, 64, 64, 0, &host, &flags),
			 KEY_BAD_UNKNOWN);
	key_publish(index, key);
	assert_int_equal(key_check(key_table(), key, 1, 0, 64, 64, 0, &host, &flags), KEY_OK);
	key_revoke(index);
	assert_int_equal(key_check(key_table(), key, 1, 0, 64, 64, 0, &host, &flags),
			 KEY_BAD_UNKNOWN);
	key_free(index);
}

#define LW IBV_ACCESS_LOCAL_WRITE
#define RW IBV_ACCESS_REMOTE_WRITE
#define RR IBV_ACCESS_REMOTE_READ
#define RA IBV_ACCESS_REMOTE_ATOMIC

/* Entry: PD 7, [0x1000, 0x1100), owner's address 0x500000. */
static const struct {
	int number;
	uint32_t entry_access, entry_flags, entry_qpn;
	uint32_t key_change, pd, qpn;
	uint64_t addr, length;
	uint32_t access;
	enum key_verdict verdict;
	uint64_t host;
} rows[] = {
	{ 1, LW, 0, 0, 0, 7, 9, 0x1000, 0x100, 0, KEY_OK, 0x500000 },
	{ 2, LW, 0, 0, 0, 7, 9, 0x10ff, 1, LW, KEY_OK, 0x5000ff },
	{ 3, LW, 0, 0, 0, 7, 9, 0x1100, 0, LW, KEY_OK, 0x500100 },
	{ 4, LW, 0, 0, 0, 7, 9, 0x0fff, 1, 0, KEY_BAD_RANGE, 0 },
	{ 5, LW, 0, 0, 0, 7, 9, 0x0fff, 2, 0, KEY_BAD_RANGE, 0 },
	{ 6, LW, 0, 0, 0, 7, 9, 0x10ff, 2, 0, KEY_BAD_RANGE, 0 },
	{ 7, LW, 0, 0, 0, 7, 9, 0x1000, 0x101, 0, KEY_BAD_RANGE, 0 },
	{ 8, LW, 0, 0, 0, 7, 9, 0x1001, UINT64_MAX, 0, KEY_BAD_RANGE, 0 },
	{ 9, LW, 0, 0, 0, 7, 9, UINT64_MAX, 2, 0, KEY_BAD_RANGE, 0 },
	{ 10, LW, 0, 0, 0, 7, 9, 0x1101, 0, 0, KEY_BAD_RANGE, 0 },
	{ 11, LW, 0, 0, 0, 8, 9, 0x1000, 8, 0, KEY_BAD_PD, 0 },
	{ 12, 0, 0, 0, 0, 7, 9, 0x1000, 8, LW, KEY_BAD_ACCESS, 0 },
	{ 13, LW | RR, 0, 0, 0, 7, 9, 0x1000, 8, RW, KEY_BAD_ACCESS, 0 },
	{ 14, LW | RW | RR, 0, 0, 0, 7, 9, 0x1000, 8, RW, KEY_OK, 0x500000 },
	{ 15, LW | RW | RR, 0, 0, 0, 7, 9, 0x1000, 8, RA, KEY_BAD_ACCESS, 0 },
	{ 16, LW, 0, 0, 1, 7, 9, 0x1000, 8, 0, KEY_BAD_UNKNOWN, 0 },
	{ 17, LW, 0, 0, 0x80000000, 7, 9, 0x1000, 8, 0, KEY_BAD_UNKNOWN, 0 },
	{ 18, LW, 0, 0, 0x100, 7, 9, 0x1000, 8, 0, KEY_BAD_UNKNOWN, 0 },
	/* windows: of one QP if they say so, and never an L_Key */
	{ 19, RR, KEY_MW, 9, 0, 7, 9, 0x1000, 8, RR, KEY_OK, 0x500000 },
	{ 20, RR, KEY_MW, 9, 0, 7, 10, 0x1000, 8, RR, KEY_BAD_QP, 0 },
	{ 21, RR, KEY_MW, 0, 0, 7, 10, 0x1000, 8, RR, KEY_OK, 0x500000 },
	{ 22, RR, KEY_MW, 0, 0, 7, 10, 0x1000, 8, 0, KEY_BAD_UNKNOWN, 0 },
	{ 23, LW, KEY_ON_DEMAND, 0, 0, 7, 9, 0x1000, 8, 0, KEY_OK, 0x500000 },
};

static void *restore(void *index)
{
	key_restore(*(uint32_t *)index);
	return NULL;
}

/* range_drain, which holds the lock, finds each key that a copier may still use. */
static void a_dying_key_is_restored_in_one_step(void **state)
{
	struct arena_key *entry;
	uint32_t index, key, seen, flags;
	pthread_t thread;

	assert_int_equal(key_alloc(&index, &key), 0);
	entry = key_entry(index);
	*entry = (struct arena_key){ .addr = 4096, .length = 64 };
	key_publish(index, key);
	key_zero(index);
	lock_acquire(&range_lock);
	pthread_create(&thread, NULL, restore, &index);
	usleep(50000); /* it waits for the lock by then */
	seen = entry->key;
	flags = entry->flags;
	lock_release(&range_lock);
	pthread_join(thread, NULL);
	assert_true(seen == key || flags & KEY_DYING);
	assert_int_equal(entry->key, key);
	assert_int_equal(entry->flags, 0);
	key_revoke(index);
	key_free(index);
}

static void key_check_verdicts(void **state)
{
	uint32_t index, key;

	assert_int_equal(key_alloc(&index, &key), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t host = 0;
		uint32_t flags = 0;
		enum key_verdict verdict;

		key_revoke(index);
		*key_entry(index) = (struct arena_key){
			.access = rows[i].entry_access,
			.start = 0x1000,
			.length = 0x100,
			.addr = 0x500000,
			.pd = 7,
			.flags = rows[i].entry_flags,
			.qpn = rows[i].entry_qpn,
		};
		key_publish(index, key);
		verdict = key_check(key_table(), key ^ rows[i].key_change, rows[i].pd, rows[i].qpn,
				    rows[i].addr, rows[i].length, rows[i].access, &host, &flags);
		if (verdict != rows[i].verdict || host != rows[i].host)
			fail_msg("row %d: verdict %d, host 0x%lx", rows[i].number, verdict, host);
		if (verdict == KEY_OK)
			assert_int_equal(flags, rows[i].entry_flags);
	}
	key_revoke(index);
	key_free(index);
}

static void each_verdict_has_its_causes(void **state)
{
	assert_int_equal(key_cause_local(KEY_OK), CAUSE_NONE);
	assert_int_equal(key_cause_remote(KEY_OK), CAUSE_NONE);
	assert_int_equal(key_cause_local(KEY_BAD_UNKNOWN), CAUSE_LKEY_UNKNOWN);
	assert_int_equal(key_cause_local(KEY_BAD_PD), CAUSE_LKEY_PD);
	assert_int_equal(key_cause_local(KEY_BAD_RANGE), CAUSE_LKEY_RANGE);
	assert_int_equal(key_cause_local(KEY_BAD_ACCESS), CAUSE_LKEY_ACCESS);
	assert_int_equal(key_cause_remote(KEY_BAD_UNKNOWN), CAUSE_RKEY_UNKNOWN);
	assert_int_equal(key_cause_remote(KEY_BAD_PD), CAUSE_RKEY_PD);
	assert_int_equal(key_cause_remote(KEY_BAD_RANGE), CAUSE_RKEY_RANGE);
	assert_int_equal(key_cause_remote(KEY_BAD_ACCESS), CAUSE_RKEY_ACCESS);
	assert_int_equal(key_cause_remote(KEY_BAD_QP), CAUSE_RKEY_QP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_carry_their_index),
		cmocka_unit_test(keys_are_not_guessable),
		cmocka_unit_test(a_freed_key_is_not_reused_at_once),
		cmocka_unit_test(a_revoked_key_is_unknown),
		cmocka_unit_test(a_dying_key_is_restored_in_one_step),
		cmocka_unit_test(key_check_verdicts),
		cmocka_unit_test(each_verdict_has_its_causes),
		cmocka_unit_test(all_indexes_can_be_given_and_then_no_more),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
