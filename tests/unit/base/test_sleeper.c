/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that peers wake: which wake-ups count, and how its sleep ends. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/sleeper.h"
#include "thread_state.h"

static _Atomic uint32_t word, ended;
static uint32_t role;

enum { NONE, ASLEEP, WAKING, WOKEN, TOLD };

static uint32_t state_of(uint32_t value)
{
	return value & 7;
}

/* The process has to wake its progress thread. */
static void on_end(void)
{
	atomic_fetch_add(&ended, 1);
}

static void begin(void)
{
	role = sleeper_begin();
	assert_true(role && sleeper_is(role));
}

static void sleep_ms(long ms)
{
	struct timespec time = { .tv_nsec = ms * 1000000 };

	nanosleep(&time, NULL);
}

struct sleep {
	pthread_t thread;
	_Atomic pid_t tid;
	int result, error;
};

static void *sleep_once(void *arg)
{
	struct sleep *this = arg;

	uint32_t asleep;

	if (!role)
		role = sleeper_begin();
	asleep = sleeper_prepare(role);
	this->tid = gettid();
	this->result = sleeper_wait(asleep);
	this->error = errno;
	return NULL;
}

static void start(struct sleep *this)
{
	*this = (struct sleep){ .result = 1 };
	assert_int_equal(pthread_create(&this->thread, NULL, sleep_once, this), 0);
	while (!this->tid || !is_in_futex(this->tid))
		sleep_ms(1);
}

static int set_up(void **state)
{
	word = ended = role = 0;
	sleeper_init(&word, on_end);
	return 0;
}

static void only_a_thread_that_sleeps_is_woken(void **state)
{
	struct sleep sleep;

	assert_false(sleeper_wake_other(&word));
	begin();
	start(&sleep);
	assert_true(sleeper_wake_other(&word));
	pthread_join(sleep.thread, NULL);
	assert_int_equal(sleep.result, 0);
	assert_int_equal(state_of(word), WOKEN);
	assert_true(sleeper_wake_other(&word)); /* it will look */
	assert_true(sleeper_awake(role));
	assert_false(sleeper_wake_other(&word)); /* it may have looked */
	assert_false(sleeper_end(role));
}

/* It says that it is asleep, and is not yet: the peer has to write the eventfd, and it looks. */
static void a_wake_up_before_the_sleep_is_no_wake_up(void **state)
{
	uint32_t asleep;

	begin();
	asleep = sleeper_prepare(role);
	assert_false(sleeper_wake_other(&word));
	assert_int_equal(sleeper_wait(asleep), 0);
	asleep = sleeper_prepare(role);
	sleeper_wake();
	assert_int_equal(sleeper_wait(asleep), 0);
	assert_int_equal(ended, 0);
	sleeper_end(role);
	assert_int_equal(word, NONE);
}

/* Whatever a peer writes there. */
static void an_event_wakes_it_in_any_state(void **state)
{
	struct sleep sleep;

	begin();
	for (uint32_t nonsense = 0; nonsense < 9; nonsense++) {
		start(&sleep);
		word = nonsense;
		sleeper_wake();
		pthread_join(sleep.thread, NULL);
		assert_int_equal(sleep.result, 0);
	}
	sleeper_end(role);
}

/* A peer is stopped before its FUTEX_WAKE: others do not count on it, and events come. */
static void a_peer_that_wakes_nobody_is_not_trusted(void **state)
{
	struct sleep sleep;
	uint32_t waking;

	begin();
	start(&sleep);
	waking = word - ASLEEP + WAKING;
	word = waking;
	for (int i = 0; i < 3; i++)
		assert_false(sleeper_wake_other(&word));
	assert_int_equal(word, waking);
	assert_true(is_in_futex(sleep.tid));
	sleeper_wake();
	pthread_join(sleep.thread, NULL);
	assert_true(sleeper_awake(role));
	assert_false(sleeper_end(role));
}

/* A thread of the process tells it when it has looked: nobody counts on another look. */
static void what_it_is_told_is_no_promise(void **state)
{
	struct sleep sleep;

	begin();
	start(&sleep);
	sleeper_wake();
	pthread_join(sleep.thread, NULL);
	assert_int_equal(state_of(word), TOLD);
	assert_false(sleeper_wake_other(&word));
	sleeper_awake(role);
	sleeper_wake();
	assert_int_equal(word, NONE); /* it is awake */
	assert_false(sleeper_end(role));
}

/* The FUTEX_WAKE of an earlier sleep: it may end another one, and leaves the word as it is. */
static void each_sleep_has_a_number(void **state)
{
	uint32_t first, second;

	begin();
	first = sleeper_prepare(role);
	sleeper_awake(role);
	second = sleeper_prepare(role);
	assert_int_not_equal(first, second);
	assert_int_equal(state_of(first), ASLEEP);
	assert_int_equal(state_of(second), ASLEEP);
	sleeper_end(role);
}

static void there_is_one(void **state)
{
	begin();
	assert_int_equal(sleeper_begin(), 0);
	assert_false(sleeper_end(role));
	begin();
	sleeper_end(role);
	sleeper_init(NULL, on_end);
	assert_int_equal(sleeper_begin(), 0);
}

/* It leaves without a look, and is told whether somebody counts on it. */
static void its_end_tells_who_counts_on_it(void **state)
{
	static const bool counts[] = { false, false, true, true, true };

	for (uint32_t i = NONE; i <= TOLD; i++) {
		begin();
		word = sleeper_prepare(role) - ASLEEP + i;
		assert_int_equal(sleeper_end(role), counts[i]);
		assert_int_equal(word, NONE);
	}
}

/* A signal handler leaves the sleep by longjmp: the next call of the thread gives the role back. */
static void a_sleep_that_was_left_is_ended(void **state)
{
	uint32_t left;

	begin();
	left = role;
	sleeper_prepare(role);
	assert_true(sleeper_left());
	assert_false(sleeper_left());
	assert_false(sleeper_is(left));
	assert_int_equal(word, NONE);
	begin();
	sleeper_prepare(role);
	assert_false(sleeper_end(left)); /* the frame of a handler's caller */
	assert_false(sleeper_awake(left));
	assert_true(sleeper_is(role));
	assert_int_equal(state_of(word), ASLEEP);
	sleeper_end(role);
}

static void ignore(int number)
{
}

static void handlers_end_the_sleep_or_not(void **state)
{
	struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct sleep sleep;

	begin();
	sigaction(SIGUSR1, &action, NULL);
	start(&sleep);
	pthread_kill(sleep.thread, SIGUSR1);
	sleep_ms(20);
	assert_int_equal(state_of(word), ASLEEP);
	sleeper_wake();
	pthread_join(sleep.thread, NULL);
	assert_int_equal(sleep.result, 0);

	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	start(&sleep);
	pthread_kill(sleep.thread, SIGUSR1);
	pthread_join(sleep.thread, NULL);
	assert_int_equal(sleep.result, -1);
	assert_int_equal(sleep.error, EINTR);
	assert_int_equal(ended, 0);
	sleeper_end(role);
}

static void a_cancelled_sleeper_is_replaced(void **state)
{
	struct sleep sleep;
	void *result;

	start(&sleep);
	pthread_cancel(sleep.thread);
	pthread_join(sleep.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(ended, 1);
	assert_int_equal(word, NONE);
	begin();
	sleeper_end(role);
}

static void *sleep_with_a_lost_role(void *arg)
{
	struct sleep *this = arg;
	uint32_t asleep, lost = sleeper_begin();

	sleeper_left(); /* a handler calls a verb, just before the thread prepares */
	asleep = sleeper_prepare(lost);
	this->tid = gettid();
	sleeper_wait(asleep);
	this->result = sleeper_is(lost) ? -1 : sleeper_lost();
	return NULL;
}

static void peers_do_not_count_on_a_lost_role(void **state)
{
	struct sleep sleep = { 0 };

	assert_int_equal(pthread_create(&sleep.thread, NULL, sleep_with_a_lost_role, &sleep), 0);
	while (!sleep.tid || !is_in_futex(sleep.tid))
		sleep_ms(1);
	assert_true(sleeper_wake_other(&word));
	pthread_join(sleep.thread, NULL);
	assert_int_equal(sleep.result, true);
	assert_int_equal(word, NONE);
	assert_false(sleeper_wake_other(&word));
}

/* It prepares, is woken, and looks, all the time, until it is cancelled. */
static void *sleep_until_cancelled(void *arg)
{
	role = sleeper_begin();
	atomic_store((_Atomic bool *)arg, true);
	for (;;) {
		sleeper_wait(sleeper_prepare(role));
		sleeper_awake(role);
	}
	return NULL;
}

#define CANCELLATIONS 300

static void it_is_cancelled_at_any_instant(void **state)
{
	for (uint32_t i = 0; i < CANCELLATIONS; i++) {
		_Atomic bool begun = false;
		pthread_t thread;
		void *result;

		assert_int_equal(pthread_create(&thread, NULL, sleep_until_cancelled, &begun), 0);
		while (!begun)
			sched_yield();
		for (uint32_t j = 0; j < i; j++)
			j % 3 ? (void)sleeper_wake_other(&word) : sleeper_wake();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(ended, i + 1);
		assert_int_equal(word, NONE);
		assert_false(sleeper_is(role));
	}
}

#define ROUNDS	  20000
#define ROUNDS_NS 15000000000ull /* fewer rounds on a busy machine */
#define PEERS	  2

static _Atomic uint32_t left[PEERS], eventfd;
static _Atomic bool enough;

/* A peer: what it leaves is there before it wakes. */
static void *leave(void *arg)
{
	_Atomic uint32_t *mine = arg;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (atomic_load_explicit(mine, memory_order_relaxed)) {
			if (enough)
				return NULL;
			sched_yield();
		}
		atomic_store_explicit(mine, 1, memory_order_release);
		if (!sleeper_wake_other(&word)) {
			eventfd++; /* so the progress thread looks, and tells the sleeper */
			sleeper_wake();
		}
	}
	return NULL;
}

static uint32_t take(void)
{
	uint32_t found = 0;

	for (int i = 0; i < PEERS; i++)
		if (atomic_load_explicit(&left[i], memory_order_acquire)) {
			atomic_store_explicit(&left[i], 0, memory_order_relaxed);
			found++;
		}
	return found;
}

/* What is left before a wake-up is found after it. */
static void nothing_is_slept_over(void **state)
{
	uint64_t end_ns = clock_now_ns() + ROUNDS_NS;
	pthread_t peers[PEERS];

	begin();
	for (int i = 0; i < PEERS; i++)
		assert_int_equal(pthread_create(&peers[i], NULL, leave, &left[i]), 0);
	for (uint32_t found = 0; found < PEERS * ROUNDS && clock_now_ns() < end_ns;
	     found += take()) {
		uint32_t asleep = sleeper_prepare(role);

		if (!left[0] && !left[1])
			assert_int_equal(sleeper_wait(asleep), 0);
		sleeper_awake(role);
	}
	enough = true;
	for (int i = 0; i < PEERS; i++)
		pthread_join(peers[i], NULL);
	sleeper_end(role);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_a_thread_that_sleeps_is_woken, set_up),
		cmocka_unit_test_setup(a_wake_up_before_the_sleep_is_no_wake_up, set_up),
		cmocka_unit_test_setup(an_event_wakes_it_in_any_state, set_up),
		cmocka_unit_test_setup(a_peer_that_wakes_nobody_is_not_trusted, set_up),
		cmocka_unit_test_setup(what_it_is_told_is_no_promise, set_up),
		cmocka_unit_test_setup(each_sleep_has_a_number, set_up),
		cmocka_unit_test_setup(there_is_one, set_up),
		cmocka_unit_test_setup(its_end_tells_who_counts_on_it, set_up),
		cmocka_unit_test_setup(a_sleep_that_was_left_is_ended, set_up),
		cmocka_unit_test_setup(handlers_end_the_sleep_or_not, set_up),
		cmocka_unit_test_setup(a_cancelled_sleeper_is_replaced, set_up),
		cmocka_unit_test_setup(peers_do_not_count_on_a_lost_role, set_up),
		cmocka_unit_test_setup(it_is_cancelled_at_any_instant, set_up),
		cmocka_unit_test_setup(nothing_is_slept_over, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
