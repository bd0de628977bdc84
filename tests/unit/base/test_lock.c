/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks: mutual exclusion, and no lost wake-up. */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"

#define THREADS 8
#define ROUNDS	40000
#define STALL_S 30 /* without progress: a sleeper was forgotten */

static struct lock lock = LOCK_INITIALIZER;
static uint64_t counter; /* guarded by the lock: the sanitizer watches */
static unsigned seed;

/* Holds the lock now and then for longer than others spin, so that they sleep. */
static void linger(unsigned *random)
{
	struct timespec some = { .tv_nsec = 20000 };

	if (rand_r(random) % 256)
		return;
	alarm(STALL_S);
	nanosleep(&some, NULL);
}

static void *count(void *arg)
{
	unsigned random = seed + (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (i % 3 || !lock_try(&lock))
			lock_acquire(&lock);
		counter++;
		linger(&random);
		lock_release(&lock);
	}
	return NULL;
}

static void count_together(void)
{
	pthread_t threads[THREADS];

	counter = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(counter, (uint64_t)THREADS * ROUNDS);
	assert_int_equal(lock.taken, 0);
	assert_int_equal(lock.sleepers, 0);
}

static void test_threads(void **state)
{
	alarm(STALL_S);
	count_together();
	alarm(0);
}

static void test_try(void **state) NO_LOCK_CHECK
{
	assert_true(lock_try(&lock));
	assert_false(lock_try(&lock));
	lock_release(&lock);
	assert_true(lock_try(&lock));
	lock_release(&lock);
}

/* Two threads hand the lock back and forth, each asleep while the other has it. */
static _Atomic int turn;

static void *hand_over(void *arg)
{
	const int me = (int)(uintptr_t)arg;
	struct timespec longer = { .tv_nsec = 200000 }; /* than threads spin */

	for (int i = 0; i < 200; i++) {
		lock_acquire(&lock);
		turn = me;
		alarm(STALL_S);
		nanosleep(&longer, NULL);
		lock_release(&lock);
	}
	return NULL;
}

static void test_sleepers_are_woken(void **state)
{
	pthread_t threads[3];

	alarm(STALL_S);
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hand_over, (void *)i), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	alarm(0);
	assert_int_equal(lock.sleepers, 0);
}

static void test_in_child(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(STALL_S);
		count_together();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_acquire_in_child(void **state)
{
	/* by threads that the child does not have */
	struct lock left = { .taken = 1, .sleepers = 2 };

	lock_acquire_in_child(&left);
	assert_int_equal(left.taken, 1);
	lock_release(&left);
	assert_int_equal(left.taken, 0);
	assert_int_equal(left.sleepers, 0);
}

/* A thread that sleeps for a lock has no need to register the process, which may take a second. */
static void test_prepare(void **state)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 || errno != EPERM)
		skip(); /* no membarrier, or somebody has registered it */
	errno = EDOM;
	lock_prepare();
	assert_int_equal(errno, EDOM);
	assert_int_equal(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prepare), /* before any other registers it */
		cmocka_unit_test(test_try),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_sleepers_are_woken),
		cmocka_unit_test(test_in_child),
		cmocka_unit_test(test_acquire_in_child),
	};

	/* The parent may have set SIG_IGN: then waitpid finds no child, and alarm has no effect. */
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)getpid();
	print_message("seed %u\n", seed);
	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
