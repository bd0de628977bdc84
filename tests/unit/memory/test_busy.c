/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The promises of memory/busy.h: pages that the kernel may store to, or wake by, stay where they
 * are, on the way in and out, and no thread waits for ever.
 */
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migrate_world.h"

struct sleeper {
	uint32_t *word;
	int operation;
	_Atomic pid_t tid;
	_Atomic bool done;
};

static void *sleep_on(void *arg)
{
	struct sleeper *sleeper = arg;

	sleeper->tid = gettid();
	while (!__atomic_load_n(sleeper->word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, sleeper->word, sleeper->operation, 0, NULL, NULL, 0);
	sleeper->done = true;
	return NULL;
}

static pthread_t start_sleeper(struct sleeper *sleeper)
{
	pthread_t thread;

	__atomic_store_n(sleeper->word, 0, __ATOMIC_RELEASE);
	sleeper->tid = 0;
	pthread_create(&thread, NULL, sleep_on, sleeper);
	for (int i = 0; i < 5000 && (!sleeper->tid || !is_in_futex(sleeper->tid)); i++)
		usleep(1000);
	return thread;
}

static void wake_sleeper(struct sleeper *sleeper, pthread_t thread)
{
	int flag = sleeper->operation & FUTEX_PRIVATE_FLAG;

	__atomic_store_n(sleeper->word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, sleeper->word, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
	for (int i = 0; i < 2000 && !sleeper->done; i++)
		usleep(1000);
	assert_true(sleeper->done);
	pthread_join(thread, NULL);
}

static void test_sleeper_is_woken(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct sleeper sleeper = { .word = (uint32_t *)(region + BYTES / 2),
				   .operation = FUTEX_WAIT };
	pthread_t thread = start_sleeper(&sleeper);

	ask(key); /* some slices go, and come back */
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	assert_false(is_shared(region));
	wake_sleeper(&sleeper, thread);
	ask(key);
	assert_int_not_equal(heap_of(key), 0);

	sleeper.done = false;
	thread = start_sleeper(&sleeper);
	end_key(key);
	assert_true(is_shared((char *)sleeper.word));
	wake_sleeper(&sleeper, thread);
	wait_until_private((char *)sleeper.word);
	wait_until_quiet();
	munmap(region, BYTES);
}

/* The kernel finds the sleepers of a private futex by its address, so the page may move. */
static void test_private_sleeper_moves(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct sleeper sleeper = {
		.word = (uint32_t *)(region + BYTES / 2),
		.operation = FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
	};
	pthread_t thread = start_sleeper(&sleeper);

	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	wake_sleeper(&sleeper, thread);
	sleeper.done = false;
	thread = start_sleeper(&sleeper);
	end_key(key);
	assert_false(is_shared(region));
	wake_sleeper(&sleeper, thread);
	munmap(region, BYTES);
}

static _Atomic int runs;

/* Like the kernel's part of a thread's end, it makes no store that would wait in a page fault. */
static void *run_without_storing(void *arg)
{
#if __has_include(<sys/rseq.h>)
	/* else the kernel stores to the control block whenever the thread is preempted */
	syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32,
		RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
	runs = 1;
#ifdef __x86_64__
	__asm__ volatile("1: pause; cmpl $1, %0; je 1b" : : "m"(runs) : "cc");
#endif
	return arg;
}

/* A thread's stack is on pages in the heap, and the thread may be ending when they leave. */
static void test_running_thread_is_left(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	pthread_attr_t attr;
	pthread_t thread;

#ifndef __x86_64__
	end_key(key);
	skip(); /* what a compiler makes of a loop may store to the stack */
#endif
	ask(key);
	assert_int_not_equal(heap_of(key), 0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, region + BYTES / 2, BYTES / 2);
	pthread_create(&thread, &attr, run_without_storing, NULL);
	while (!runs)
		usleep(1000);
	end_key(key);
	assert_true(is_shared(region + BYTES - PAGE));
	runs = 2;
	pthread_join(thread, NULL);
	wait_until_private(region + BYTES - PAGE);
	wait_until_quiet();
	munmap(region, BYTES);
	pthread_attr_destroy(&attr);
}

/* The kernel ends its rings a little later than their descriptors. */
static void ask_until_migrated(uint32_t key)
{
	for (int i = 0; i < 1000 && !heap_of(key); i++) {
		usleep(1000);
		ask(key);
	}
	assert_int_not_equal(heap_of(key), 0);
}

/* A child that reads and writes the region, which has its contents in the parent afterwards. */
static void check_fork(char *region)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (!is_region(region, BYTES))
			_exit(3);
		memset(region, 'c', BYTES);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	check_region(region, BYTES);
}

/* With an AIO context or an io_uring the kernel may store anywhere at any time. */
static void check_stays_while(int (*begin)(void), void (*end)(int))
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	int what = begin();

	if (what < 0) {
		end_key(key);
		munmap(region, BYTES);
		skip();
	}
	ask(key);
	assert_int_equal(heap_of(key), 0);
	assert_int_equal(flags_of(key), 0);
	end(what);
	ask_until_migrated(key);

	what = begin();
	check_fork(region);
	end_key(key); /* returns, though the pages stay in the heap */
	assert_true(is_shared(region));
	check_region(region, BYTES);
	key = make_key(region, BYTES, 0);
	end_key(key);
	end(what);
	wait_until_private(region);
	wait_until_quiet();
	check_region(region, BYTES);
	munmap(region, BYTES);
}

static aio_context_t aio;

static int begin_aio(void)
{
	return (int)syscall(SYS_io_setup, 8, &aio);
}

static void end_aio(int ignored)
{
	syscall(SYS_io_destroy, aio);
	aio = 0;
}

static void test_stays_with_aio(void **state)
{
	check_stays_while(begin_aio, end_aio);
}

static char pinned_page[PAGE] __attribute__((aligned(4096)));

static int begin_ring(void)
{
	struct io_uring_params params = { 0 };
	struct iovec pinned = { pinned_page, PAGE };
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);

	if (ring >= 0 &&
	    syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &pinned, 1)) {
		close(ring);
		return -1;
	}
	return ring;
}

static void end_ring(int ring)
{
	close(ring);
}

static void test_stays_with_pinned_pages(void **state)
{
	check_stays_while(begin_ring, end_ring);
}

/* The kernel may write to a buffer registered with io_uring at any time, and without a fault. */
static void test_pinned_pages_stay(void **state)
{
	struct io_uring_params params = { 0 };
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct iovec pinned = { region + BYTES / 2, PAGE };
	struct writer writer = {
		.words = { (uint64_t *)region, (uint64_t *)(region + BYTES / 4),
			   (uint64_t *)(region + BYTES - 8) },
	};
	uint64_t before[3] = { *writer.words[0], *writer.words[1], *writer.words[2] };
	pthread_t thread;
	int ring = (int)syscall(SYS_io_uring_setup, 1, &params);

	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &pinned, 1)) {
		end_key(key);
		skip();
	}
	pthread_create(&thread, NULL, keep_writing, &writer);
	for (int round = 0; round < 100; round++) {
		ask(key);
		assert_int_equal(heap_of(key), 0);
		assert_int_equal(flags_of(key), 0);
	}
	writer.stop = true;
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(*writer.words[i], writer.writes + before[i]);
		*writer.words[i] = before[i];
	}
	check_region(region, BYTES);
	close(ring);
	ask_until_migrated(key);
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleeper_is_woken),
		cmocka_unit_test(test_private_sleeper_moves),
		cmocka_unit_test(test_running_thread_is_left),
		cmocka_unit_test(test_stays_with_aio),
		cmocka_unit_test(test_stays_with_pinned_pages),
		cmocka_unit_test(test_pinned_pages_stay),
	};

	migrate_world_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
