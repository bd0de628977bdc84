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
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sleeper.h"

static _Atomic uint32_t word, undone;

#define NONE   0
#define ASLEEP 1
#define WOKEN  2

static void undo(void *arg)
{
	atomic_fetch_add((_Atomic uint32_t *)arg, 1);
	sleeper_end();
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

	this->tid = gettid();
	this->result = sleeper_wait(undo, &undone);
	this->error = errno;
	return NULL;
}

/* Its state in /proc: "running", or the number of the system call in which it sleeps. */
static bool is_in_futex(pid_t tid)
{
	char path[64];
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	file = fopen(path, "re");
	assert_non_null(file);
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number == SYS_futex;
}

static void start(struct sleep *this)
{
	*this = (struct sleep){ .result = 1 };
	sleeper_prepare();
	assert_int_equal(pthread_create(&this->thread, NULL, sleep_once, this), 0);
	while (!this->tid || !is_in_futex(this->tid))
		sleep_ms(1);
}

static int set_up(void **state)
{
	word = undone = 0;
	sleeper_init(&word);
	return 0;
}

static void only_a_thread_that_sleeps_is_woken(void **state)
{
	struct sleep sleep;

	assert_false(sleeper_wake_other(&word));
	assert_true(sleeper_begin());
	start(&sleep);
	assert_true(sleeper_wake_other(&word));
	pthread_join(sleep.thread, NULL);
	assert_int_equal(sleep.result, 0);
	assert_int_equal(word, WOKEN);
	assert_true(sleeper_wake_other(&word)); /* it will look */
	sleeper_awake();
	assert_false(sleeper_wake_other(&word)); /* it may have looked */
	sleeper_end();
}

/* It says that it is asleep, and is not yet: the peer has to write the eventfd, and it looks. */
static void a_wake_up_before_the_sleep_is_no_wake_up(void **state)
{
	assert_true(sleeper_begin());
	sleeper_prepare();
	assert_false(sleeper_wake_other(&word));
	assert_int_equal(sleeper_wait(undo, &undone), 0);
	sleeper_prepare();
	sleeper_wake();
	assert_int_equal(sleeper_wait(undo, &undone), 0);
	assert_int_equal(undone, 0);
	sleeper_end();
	assert_int_equal(word, NONE);
}

/* Whatever a peer writes there. */
static void an_event_wakes_it_in_any_state(void **state)
{
	struct sleep sleep;

	assert_true(sleeper_begin());
	for (uint32_t nonsense = 0; nonsense < 5; nonsense++) {
		start(&sleep);
		word = nonsense;
		sleeper_wake();
		pthread_join(sleep.thread, NULL);
		assert_int_equal(sleep.result, 0);
	}
	sleeper_end();
}

static void there_is_one(void **state)
{
	assert_true(sleeper_begin());
	assert_false(sleeper_begin());
	sleeper_end();
	assert_true(sleeper_begin());
	sleeper_end();
	sleeper_init(NULL);
	assert_false(sleeper_begin());
}

static void ignore(int number)
{
}

static void handlers_end_the_sleep_or_not(void **state)
{
	struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct sleep sleep;

	assert_true(sleeper_begin());
	sigaction(SIGUSR1, &action, NULL);
	start(&sleep);
	pthread_kill(sleep.thread, SIGUSR1);
	sleep_ms(20);
	assert_int_equal(word, ASLEEP);
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
	assert_int_equal(undone, 0);
	sleeper_end();
}

static void a_cancelled_sleeper_undoes(void **state)
{
	struct sleep sleep;
	void *result;

	assert_true(sleeper_begin());
	start(&sleep);
	pthread_cancel(sleep.thread);
	pthread_join(sleep.thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(undone, 1);
	assert_int_equal(word, NONE);
	assert_true(sleeper_begin());
	sleeper_end();
}

#define ROUNDS 20000

static _Atomic uint32_t left, eventfd;

/* A peer: what it leaves is there before it wakes. */
static void *leave(void *arg)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (left)
			sched_yield();
		left = 1;
		if (!sleeper_wake_other(&word)) {
			eventfd++; /* so the progress thread looks, and tells the sleeper */
			sleeper_wake();
		}
	}
	return NULL;
}

/* What is left before a wake-up is found after it. */
static void nothing_is_slept_over(void **state)
{
	pthread_t peer;

	assert_true(sleeper_begin());
	assert_int_equal(pthread_create(&peer, NULL, leave, NULL), 0);
	for (uint32_t found = 0; found < ROUNDS;) {
		sleeper_prepare();
		if (!left)
			assert_int_equal(sleeper_wait(undo, &undone), 0);
		sleeper_awake();
		if (left) {
			left = 0;
			found++;
		}
	}
	pthread_join(peer, NULL);
	sleeper_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_a_thread_that_sleeps_is_woken, set_up),
		cmocka_unit_test_setup(a_wake_up_before_the_sleep_is_no_wake_up, set_up),
		cmocka_unit_test_setup(an_event_wakes_it_in_any_state, set_up),
		cmocka_unit_test_setup(there_is_one, set_up),
		cmocka_unit_test_setup(handlers_end_the_sleep_or_not, set_up),
		cmocka_unit_test_setup(a_cancelled_sleeper_undoes, set_up),
		cmocka_unit_test_setup(nothing_is_slept_over, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
