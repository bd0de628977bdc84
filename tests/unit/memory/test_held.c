/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Migration without userfaultfd: pages move only while all threads of the program stand, no write
 * is lost, threads that never stand hold up nothing, and pages come back whatever threads do.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "memory/heap.h"
#include "memory/hold.h"
#include "memory/requests.h"
#include "memory/maps.h"
#include "migrate_world.h"

/*
 * The same place serves a region again. Only a thread that is late, as on a busy machine, lets its
 * pages leave without a hold: that place is not used again while they are mapped.
 */
static void test_there_and_back(void **state)
{
	char *region = make_region(BYTES);
	uint64_t place = 0, left = 0;

	for (int round = 0, again = 0; again < 2; round++) {
		uint32_t key = make_key(region, BYTES, 0);

		assert_true(round < 20);
		assert_true(request_and_poll(key, 40 * TURNS_MS));
		assert_int_equal(flags_of(key), 0);
		assert_true(is_shared(region) && is_shared(region + BYTES - 1));
		check_region(region, BYTES);
		assert_int_equal(peek(heap_of(key) + PAGE), PAGE / 8 * 31);
		*(uint64_t *)(region + PAGE) = 77;
		assert_int_equal(peek(heap_of(key) + PAGE), 77);
		*(uint64_t *)(region + PAGE) = PAGE / 8 * 31;
		if (heap_of(key) == place) {
			assert_int_equal(left, 0);
			again++;
		}
		place = heap_of(key);
		end_key(key);
		wait_until_private(region);
		check_region(region, BYTES);
		left = peek(place + PAGE);
	}
	munmap(region, BYTES);
}

/* No verb is called: nothing moves, and no key is MOVING meanwhile. */
static void test_nobody_stands(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);

	assert_true(migrate_request(key));
	for (int i = 0; i < 50; i++) {
		usleep(1000);
		assert_int_equal(heap_of(key) | flags_of(key), 0);
	}
	assert_true(poll_until_migrated(key, 20 * TURNS_MS));
	end_key(key);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

/*
 * No thread stands while many keys are asked for and end: their requests end with them, and threads
 * are not asked to stand any more.
 */
static void test_ended_keys_are_not_asked_for(void **state)
{
	char *region = make_region(BYTES);

	for (int i = 0; i < 3 * REQUESTS_MAX; i++) {
		uint32_t key = make_key(region, BYTES, 0);

		assert_true(migrate_request(key));
		end_key(key);
		assert_false(requests_any());
		assert_false(migrate_request(key));
		assert_false(requests_any());
	}
	wait_until_quiet();
	assert_int_equal(hold_wanted, 0);
	check_region(region, BYTES);
	munmap(region, BYTES);
}

static _Atomic uint32_t asked;

static void *keep_asking(void *arg)
{
	uint32_t key;

	while ((key = atomic_load(&asked)) != 0)
		migrate_request(key);
	return arg;
}

/* A peer asks for keys just when they end. */
static void test_request_while_its_key_ends(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	pthread_t thread;

	atomic_store(&asked, key);
	pthread_create(&thread, NULL, keep_asking, NULL);
	for (int i = 0; i < 500; i++) {
		end_key(key);
		key = make_key(region, BYTES, 0);
		atomic_store(&asked, key);
	}
	end_key(key);
	atomic_store(&asked, 0);
	pthread_join(thread, NULL);
	assert_false(requests_any());
	munmap(region, BYTES);
}

/* One thread polls, the other writes and never calls a verb. */
static void test_a_thread_that_never_stands(void **state)
{
	char *region = make_region(BYTES);
	struct writer writer = { .words = { (uint64_t *)region, (uint64_t *)(region + PAGE),
					    (uint64_t *)(region + BYTES - 8) } };
	uint64_t before = *writer.words[2];
	uint32_t key = make_key(region, BYTES, 0);
	pthread_t thread;

	pthread_create(&thread, NULL, keep_writing, &writer);
	assert_false(request_and_poll(key, TURNS_MS));
	assert_int_equal(flags_of(key), 0);
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	assert_true(poll_until_migrated(key, 20 * TURNS_MS));
	assert_int_equal(*writer.words[2], before + writer.writes);
	end_key(key);
	assert_int_equal(*writer.words[2], before + writer.writes);
	munmap(region, BYTES);
}

/* Pages that left beside a running thread migrate again, and come back as others do. */
static void migrate_again(char *region)
{
	uint64_t word = *(uint64_t *)region;
	uint32_t key = make_key(region, BYTES, 0);

	assert_true(request_and_poll(key, 40 * TURNS_MS));
	assert_true(is_shared(region) && is_shared(region + BYTES - 1));
	assert_int_equal(peek(heap_of(key)), word);
	assert_int_equal(flags_of(key), 0);
	end_key(key);
	wait_until_private(region); /* put off, if this thread was about to sleep */
	assert_int_equal(*(uint64_t *)region, word);
}

/*
 * A thread that began after the migration writes while the key ends: the pages leave all the same,
 * and memory that the program gives back is empty.
 */
static void test_back_beside_a_writer(void **state)
{
	for (int round = 0; round < 10; round++) {
		char *region = make_region(BYTES), *other;
		struct writer writer = { .words = { (uint64_t *)region, (uint64_t *)(region + PAGE),
						    (uint64_t *)(region + BYTES - 8) } };
		uint64_t before[3] = { *writer.words[0], *writer.words[1], *writer.words[2] };
		uint32_t key = make_key(region, BYTES, 0);
		uint64_t place;
		pthread_t thread;
		bool shows;

		assert_true(request_and_poll(key, 40 * TURNS_MS));
		place = heap_of(key);
		pthread_create(&thread, NULL, keep_writing, &writer);
		usleep(300);
		end_key(key);
		wait_until_private(region);
		assert_false(is_shared(region + BYTES - 1));
		usleep(300);
		atomic_store(&writer.stop, true);
		pthread_join(thread, NULL);
		for (int i = 0; i < 3; i++)
			assert_int_equal(*writer.words[i], before[i] + writer.writes);
		assert_int_equal(((uint64_t *)region)[1], 31);
		if (round % 2)
			migrate_again(region);
		madvise(region, BYTES, MADV_DONTNEED);
		assert_int_equal(((uint64_t *)region)[1], 0);

		/* nothing else gets the place, which such memory would show */
		shows = is_private_of_heap(region);
		assert_true(shows || round % 2);
		other = make_region(BYTES);
		key = make_key(other, BYTES, 0);
		assert_true(request_and_poll(key, 40 * TURNS_MS));
		assert_true(!shows || heap_of(key) > place);
		madvise(region, BYTES, MADV_DONTNEED);
		assert_int_equal(((uint64_t *)region)[1], 0);
		end_key(key);
		munmap(region, BYTES);
		munmap(other, BYTES);
	}
}

#define STACK_BYTES (2ul << 20) /* the thread sanitizer wants much */

static _Atomic bool ended;
static sem_t checked; /* the thread exits then: else all threads might stand */

static void *end_from_its_stack(void *arg)
{
	end_key((uint32_t)(uintptr_t)arg);
	atomic_store(&ended, true);
	while (sem_wait(&checked))
		assert_int_equal(errno, EINTR);
	return NULL;
}

/*
 * Both threads stand, one on a stack that lies in the region, and deregisters it. It touches that
 * stack as soon as it goes on, and before it sleeps: the slice leaves without a hold.
 */
static void test_stack_on_the_way_out(void **state)
{
	assert_int_equal(sem_init(&checked, 0, 0), 0);
	for (int round = 0; round < 10; round++) {
		char *region = make_region(BYTES), *stack = region + (1ul << 20);
		uint32_t key = make_key(region, BYTES, 0);
		pthread_attr_t attr;
		pthread_t thread;

		assert_true(request_and_poll(key, 40 * TURNS_MS));
		atomic_store(&ended, false);
		pthread_attr_init(&attr);
		assert_int_equal(pthread_attr_setstack(&attr, stack, STACK_BYTES), 0);
		assert_int_equal(
			pthread_create(&thread, &attr, end_from_its_stack, (void *)(uintptr_t)key),
			0);
		pthread_attr_destroy(&attr);
		while (!atomic_load(&ended)) {
			struct hold_stay stay;

			hold_stand(&stay);
			usleep(2000);
			hold_go(&stay);
		}
		wait_until_private(stack);
		assert_true(is_private_of_heap(stack + STACK_BYTES - PAGE));
		sem_post(&checked);
		pthread_join(thread, NULL);
		assert_int_equal(((uint64_t *)region)[1], 31);
		munmap(region, BYTES);
	}
}

static _Atomic pid_t waiter;

static void *wait_for_post(void *semaphore)
{
	waiter = gettid();
	while (sem_wait(semaphore))
		assert_int_equal(errno, EINTR);
	return NULL;
}

/* Returns when the thread sleeps. */
static pthread_t start_waiter(sem_t *semaphore)
{
	pthread_t thread;

	waiter = 0;
	pthread_create(&thread, NULL, wait_for_post, semaphore);
	for (int i = 0; i < 5000 && (!waiter || !is_in_futex(waiter)); i++)
		usleep(1000);
	return thread;
}

/*
 * A thread sleeps in a shared futex of the region when the key ends. The kernel finds it by the
 * page, so the page stays until it is awake.
 */
static void test_sleeper_is_woken(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	sem_t *semaphore = (sem_t *)(region + PAGE);
	pthread_t thread;

	assert_true(request_and_poll(key, 40 * TURNS_MS));
	assert_int_equal(sem_init(semaphore, 1, 0), 0);
	thread = start_waiter(semaphore);
	end_key(key);
	assert_true(is_shared((char *)semaphore));
	alarm(20);
	sem_post(semaphore);
	pthread_join(thread, NULL);
	alarm(0);
	wait_until_private((char *)semaphore);
	munmap(region, BYTES);
}

/*
 * A part of a slice leaves, and is still seen in the heap, as it may not be written to; the rest
 * stays because of a sleeper, and leaves later. The part that left keeps its bytes.
 */
static void test_part_that_left_keeps_its_bytes(void **state)
{
	char *region = make_region(BYTES), *part = region + 16 * PAGE;
	uint32_t key = make_key(region, BYTES, 0);
	sem_t *semaphore = (sem_t *)(region + 32 * PAGE);
	uint64_t before = ((uint64_t *)part)[5];
	pthread_t thread;

	assert_true(request_and_poll(key, 40 * TURNS_MS));
	assert_int_equal(mprotect(part, PAGE, PROT_READ), 0);
	assert_int_equal(sem_init(semaphore, 1, 0), 0);
	thread = start_waiter(semaphore);
	end_key(key);
	assert_true(is_shared((char *)semaphore));
	assert_false(is_shared(part));
	alarm(20);
	sem_post(semaphore);
	pthread_join(thread, NULL);
	alarm(0);
	wait_until_private((char *)semaphore);
	wait_until_quiet();
	assert_int_equal(((uint64_t *)part)[5], before);
	assert_int_equal(((uint64_t *)region)[1], 31);
	munmap(region, BYTES);
}

static void fork_and_compare(char *region, uint64_t *word)
{
	uint64_t before = *word;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		bool same = *word == before;

		*word = 5;
		usleep(1000);
		_exit(!same || *word != 5 || is_shared(region));
	}
	*word = 6;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(*word, 6);
	*word = before;
}

static void test_forks(void **state)
{
	char *region = make_region(BYTES);
	uint32_t key = make_key(region, BYTES, 0);
	struct writer writer = { .words = { (uint64_t *)region, (uint64_t *)(region + PAGE),
					    (uint64_t *)(region + BYTES - 8) } };
	pthread_t thread;

	assert_true(request_and_poll(key, 40 * TURNS_MS));
	fork_and_compare(region, (uint64_t *)(region + 16));
	check_region(region, BYTES);
	assert_true(heap_of(key) || request_and_poll(key, 40 * TURNS_MS));
	pthread_create(&thread, NULL, keep_writing, &writer);
	fork_and_compare(region, (uint64_t *)(region + 16));
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	end_key(key);
	assert_int_equal(*writer.words[0], writer.writes);
	munmap(region, BYTES);
}

static uint64_t *counted;
static uint64_t signals;

static void count(int number)
{
	++*counted;
	signals++;
}

/* Handlers write between holds, never during one. */
static void test_signals(void **state)
{
	char *region = make_region(BYTES);
	struct sigaction handler = { .sa_handler = count, .sa_flags = SA_RESTART };
	struct itimerspec often = { { 0, 300000 }, { 0, 300000 } };
	timer_t timer;

	counted = (uint64_t *)(region + BYTES / 2);
	*counted = signals = 0;
	sigaction(SIGALRM, &handler, NULL);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
	timer_settime(timer, 0, &often, NULL);
	for (int round = 0; round < 20; round++) {
		uint32_t key = make_key(region, BYTES, 0);

		request_and_poll(key, TURNS_MS);
		end_key(key);
		assert_false(is_shared(region));
	}
	timer_delete(timer);
	signal(SIGALRM, SIG_IGN);
	assert_true(signals > 10);
	assert_int_equal(*counted, signals);
	munmap(region, BYTES);
}

/* A new mapping over locked pages would not be locked. */
static void test_locked_pages_stay(void **state)
{
	char *region = make_region(BYTES), *other = make_region(PAGE);
	uint32_t key = make_key(region, BYTES, 0);

	/* the sanitizers ignore the function */
	assert_int_equal(syscall(SYS_mlock, other, PAGE), 0);
	assert_true(migrate_request(key));
	for (int i = 0; i < 20 && !(flags_of(key) & KEY_STAYS); i++)
		assert_false(poll_until_migrated(key, TURNS_MS / 2));
	assert_true(flags_of(key) & KEY_STAYS);
	assert_false(is_shared(region));
	end_key(key);
	syscall(SYS_munlock, other, PAGE);
	key = make_key(region, BYTES, 0);
	assert_true(request_and_poll(key, 40 * TURNS_MS));
	end_key(key);
	munmap(region, BYTES);
	munmap(other, PAGE);
}

/* Until the program has written `until`. Returns 0, or errno. */
static int read_from_outside(pid_t of, char *region, const _Atomic bool *until)
{
	static char copy[BYTES];
	struct iovec to = { copy, BYTES }, from = { region, BYTES };

	while (!atomic_load(until)) {
		ssize_t n = process_vm_readv(of, &to, 1, &from, 1, 0);

		if (n != (ssize_t)BYTES)
			return n < 0 ? errno : EIO;
		for (size_t i = 0; i < BYTES; i += PAGE)
			if (*(uint64_t *)(copy + i) != i / 8 * 31)
				return EILSEQ;
	}
	return 0;
}

/* Another process reads with process_vm_readv: it always finds the pages, and what is in them. */
static void test_read_from_outside(void **state)
{
	char *region = make_region(BYTES);
	_Atomic bool *end =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child = fork();
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(read_from_outside(parent, region, end));
	for (int round = 0; round < 20; round++) {
		uint32_t key = make_key(region, BYTES, 0);

		request_and_poll(key, TURNS_MS);
		end_key(key);
	}
	atomic_store(end, true);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	munmap(region, BYTES);
	munmap(end, PAGE);
}

static _Atomic bool over;

static void *stand_often(void *arg)
{
	while (!atomic_load(&over)) {
		struct hold_stay stay;

		hold_stand(&stay);
		usleep(2000);
		hold_go(&stay);
	}
	return arg;
}

/* setuid waits for a handler of each thread's: the C library's own signals reach a standing one. */
static void test_setuid(void **state)
{
	pthread_t thread;

	atomic_store(&over, false);
	pthread_create(&thread, NULL, stand_often, NULL);
	alarm(20);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(setuid(getuid()), 0);
		usleep(500);
	}
	alarm(0);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

#define POLLERS 3

struct poller {
	uint64_t *word, writes;
	unsigned seed;
};

/* A thread that writes, and calls a verb now and then. */
static void *write_and_poll(void *arg)
{
	struct poller *poller = arg;

	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		for (int n = rand_r(&poller->seed) % 50; n >= 0; n--) {
			*(volatile uint64_t *)poller->word = *poller->word + 1;
			poller->writes++;
		}
		hold_point();
	}
	return NULL;
}

/* All threads stand now and then; keys come and go; nothing that a thread writes is lost. */
static void test_threads_that_poll(void **state)
{
	char *region = make_region(BYTES);
	struct poller pollers[POLLERS] = { { 0 } };
	pthread_t threads[POLLERS];
	unsigned moved = 0;

	atomic_store(&over, false);
	for (unsigned i = 0; i < POLLERS; i++) {
		pollers[i].word = (uint64_t *)(region + BYTES / POLLERS / 8 * 8 * i);
		*pollers[i].word = 0;
		pollers[i].seed = i + 1;
		pthread_create(&threads[i], NULL, write_and_poll, &pollers[i]);
	}
	/* on a busy machine the threads come together more rarely */
	for (int round = 0; round < 20 || (!moved && round < 120); round++) {
		uint32_t key = make_key(region, BYTES, 0);

		moved += request_and_poll(key, TURNS_MS);
		end_key(key);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < POLLERS; i++)
		assert_int_equal(*pollers[i].word, pollers[i].writes);
	assert_true(moved > 0);
	munmap(region, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_nobody_stands),
		cmocka_unit_test(test_ended_keys_are_not_asked_for),
		cmocka_unit_test(test_request_while_its_key_ends),
		cmocka_unit_test(test_a_thread_that_never_stands),
		cmocka_unit_test(test_threads_that_poll),
		cmocka_unit_test(test_locked_pages_stay),
		cmocka_unit_test(test_read_from_outside),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_setuid),
		cmocka_unit_test(test_forks),
		cmocka_unit_test(test_back_beside_a_writer),
		cmocka_unit_test(test_stack_on_the_way_out),
		cmocka_unit_test(test_sleeper_is_woken),
		cmocka_unit_test(test_part_that_left_keeps_its_bytes),
	};

	setenv("VERBATIM_MIGRATE", "held", 1);
	migrate_world_start();
	add_sanitizer_threads();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
