/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promise of memory/hazard.h under threads: once key_revoke has returned, no thread uses what
 * the key named. Takes a seed as its argument; prints it.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness.h"

#define COPIERS	    3
#define REGIONS	    4
#define ROUNDS	    5000
#define BYTES	    256
#define KEY_OF_NONE 1 /* index 0 */

static unsigned seed;
static void *arena;

static struct region {
	_Atomic uint32_t key;
	uint32_t index;
	/*
	 * What the key names; poisoned while the key is dead. Plain memory, so that TSan sees a
	 * late access.
	 */
	char memory[BYTES];
} regions[REGIONS];

static _Atomic bool stop;
static _Atomic unsigned long copies, refusals;

static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void *copy(void *arg)
{
	uint32_t random = seed + 17 * (uint32_t)(uintptr_t)arg;
	char buffer[BYTES];

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct region *region = &regions[draw(&random) % REGIONS];
		uint32_t key = atomic_load_explicit(&region->key, memory_order_relaxed), flags;
		struct arena_hazard *outer, *hazard;
		uint64_t host;

		if (!key)
			continue;
		outer = hazard_set(HARNESS_SLOT, KEY_OF_NONE);
		hazard = hazard_set(HARNESS_SLOT, key);
		if (key_check(key_table(), key, 1, 0, 0, BYTES, 0, &host, &flags) == KEY_OK) {
			memcpy(buffer, (void *)(uintptr_t)host, BYTES);
			for (int i = 0; i < BYTES; i++)
				if (buffer[i] != 'a')
					abort(); /* copied what was revoked */
			atomic_fetch_add_explicit(&copies, 1, memory_order_relaxed);
		} else {
			atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
		}
		hazard_clear(hazard);
		hazard_clear(outer);
	}
	return NULL;
}

static void revoke_waits_for_copiers(void **state)
{
	pthread_t threads[COPIERS];
	uint32_t random = seed;

	for (uintptr_t i = 0; i < COPIERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, copy, (void *)(i + 1)), 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct region *region = &regions[draw(&random) % REGIONS];
		uint32_t key;

		if (atomic_load(&region->key)) {
			key_revoke(region->index);
			memset(region->memory, 'x', BYTES);
			key_free(region->index);
			atomic_store(&region->key, 0);
			continue;
		}
		memset(region->memory, 'a', BYTES);
		assert_int_equal(key_alloc(&region->index, &key), 0);
		*key_entry(region->index) = (struct arena_key){
			.length = BYTES,
			.addr = (uintptr_t)region->memory,
			.pd = 1,
		};
		key_publish(region->index, key);
		atomic_store(&region->key, key);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < COPIERS; i++)
		pthread_join(threads[i], NULL);
	print_message("seed %u: %lu copies, %lu refused\n", seed, atomic_load(&copies),
		      atomic_load(&refusals));
	for (int i = 0; i < REGIONS; i++)
		if (atomic_load(&regions[i].key))
			key_revoke(regions[i].index);
}

/* As many as a thread can have: in its own line, and each is found. */
static void hazards_nest(void **state)
{
	struct arena_hazard *hazards[ARENA_LINE_HAZARDS], *more;

	for (uint32_t i = 0; i < ARENA_LINE_HAZARDS; i++) {
		hazards[i] = hazard_set(HARNESS_SLOT, i + 1);
		assert_ptr_equal(hazards[i], hazards[0] + i);
		assert_int_equal(hazard_owner(i + 1), getpid());
	}
	more = hazard_set(HARNESS_SLOT, 4);
	assert_true(more < hazards[0] || more >= hazards[0] + ARENA_LINE_HAZARDS);
	assert_int_equal(hazard_owner(4), getpid());
	hazard_clear(more);
	assert_int_equal(hazard_owner(4), 0);
	hazard_clear(hazards[1]);
	assert_int_equal(hazard_owner(2), 0);
	assert_int_equal(hazard_owner(3), getpid());
	assert_ptr_equal(hazard_set(HARNESS_SLOT, 5), hazards[1]);
	for (uint32_t i = 0; i < ARENA_LINE_HAZARDS; i++)
		hazard_clear(hazards[i]);
}

static void *use_once(void *arg)
{
	struct arena_hazard *hazard = hazard_set(HARNESS_SLOT, 4);

	*(struct arena_hazard **)arg = hazard;
	hazard_clear(hazard);
	return NULL;
}

/* More threads than lines, one after the other: a thread that ends gives its own back. */
static void entries_return_with_their_thread(void **state)
{
	struct arena_hazard *hazards[2 * ARENA_HAZARD_LINES];

	for (int i = 0; i < 2 * ARENA_HAZARD_LINES; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, use_once, &hazards[i]), 0);
		pthread_join(thread, NULL);
		assert_ptr_equal(hazards[i], hazards[0]);
	}
}

static struct gathering {
	pthread_barrier_t all;
	struct arena_hazard *hazards[ARENA_HAZARD_LINES - 10];
} gathering;

static void *publish_and_wait(void *arg)
{
	struct arena_hazard **hazard = arg;

	*hazard = hazard_set(HARNESS_SLOT, 6);
	pthread_barrier_wait(&gathering.all);
	hazard_clear(*hazard);
	return NULL;
}

static void many_threads_at_once_have_an_entry_each(void **state)
{
	enum { THREADS = ARENA_HAZARD_LINES - 10 };
	pthread_t threads[THREADS];

	pthread_barrier_init(&gathering.all, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, publish_and_wait, &gathering.hazards[i]),
			0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(gathering.hazards[i], gathering.hazards[j]);
}

#define NESTING	      80
#define NESTING_TURNS 200
#define NESTING_S     20 /* without a turn */

static _Atomic unsigned nested_turns;

/* As a WRITE from an imported region to a migrated one: three keys. */
static void *hazard_within_hazards(void *arg)
{
	for (int i = 0; i < NESTING_TURNS; i++) {
		struct arena_hazard *outer = hazard_set(HARNESS_SLOT, 7), *middle, *inner;

		sched_yield();
		middle = hazard_set(HARNESS_SLOT, 8);
		sched_yield();
		inner = hazard_set(HARNESS_SLOT, 9);
		hazard_clear(inner);
		hazard_clear(middle);
		hazard_clear(outer);
		atomic_fetch_add(&nested_turns, 1);
	}
	return NULL;
}

/* More threads than lines; each takes further entries while it has one. */
static void nested_hazards_do_not_deadlock(void **state)
{
	struct timespec pause = { .tv_nsec = 10000000 };
	pthread_t threads[NESTING];
	unsigned seen = 0;

	for (int i = 0; i < NESTING; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hazard_within_hazards, NULL), 0);
	for (int i = 0; i < NESTING_S * 100 && seen < NESTING * NESTING_TURNS; i++) {
		unsigned before = seen;

		nanosleep(&pause, NULL);
		seen = atomic_load(&nested_turns);
		if (seen != before)
			i = 0;
	}
	assert_int_equal(seen, NESTING * NESTING_TURNS);
	for (int i = 0; i < NESTING; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < ARENA_HAZARDS; i++)
		assert_true(atomic_load(&arena_hazard(arena, i)->what) == 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hazards_nest),
		cmocka_unit_test(entries_return_with_their_thread),
		cmocka_unit_test(many_threads_at_once_have_an_entry_each),
		cmocka_unit_test(nested_hazards_do_not_deadlock),
		cmocka_unit_test(revoke_waits_for_copiers),
	};

	seed = argc > 1 ? strtoul(argv[1], NULL, 0) : (unsigned)time(NULL);
	arena = harness_arena();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
