/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor_wake - how long it takes to wake a process on another core that sleeps in a futex, and to
 * see its answer.
 *
 * One process sleeps in a futex and, when it is woken, stores to shared memory, where the other
 * one spins. A round trip, in which one end sleeps: the median of many. No request to a process
 * that sleeps, and that this process has to execute, can be told faster.
 *
 * Prints nanoseconds.
 */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cores.h"

#define TURNS	  10000
#define TURNS_MAX 100000u
#define PAUSE_NS  10000 /* in which the other process goes to sleep, if it is quick */

struct words {
	_Alignas(128) _Atomic uint32_t asked; /* the futex: how many requests */
	_Alignas(128) _Atomic uint32_t answered;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void answer(void *argument)
{
	struct words *words = argument;

	for (uint32_t done = 0;;) {
		uint32_t asked = atomic_load_explicit(&words->asked, memory_order_acquire);

		if (asked == done) { /* the word is looked at again, whatever ended the sleep */
			syscall(SYS_futex, &words->asked, FUTEX_WAIT, done, NULL, NULL, 0);
			continue;
		}
		done = asked;
		atomic_store_explicit(&words->answered, done, memory_order_release);
	}
}

/* Returns how long it took; 0: the other process was not asleep. */
static int64_t one_turn(struct words *words, uint32_t turn)
{
	int64_t begin = now_ns();
	long woken;

	while (now_ns() < begin + PAUSE_NS)
		;
	begin = now_ns();
	atomic_store_explicit(&words->asked, turn, memory_order_release);
	woken = syscall(SYS_futex, &words->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (atomic_load_explicit(&words->answered, memory_order_acquire) != turn)
		;
	return woken > 0 ? now_ns() - begin : 0;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	struct words *words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static int64_t times[TURNS];
	uint32_t turn = 0;
	pid_t child;
	int cpu[2];

	cores_choose(cpu);
	if (words == MAP_FAILED || cpu[0] == cpu[1]) {
		fprintf(stderr, "floor_wake: needs two CPUs\n");
		return 1;
	}
	child = cores_fork("floor_wake", cpu, answer, words);
	one_turn(words, ++turn); /* waits for the child */
	for (int i = 0; i < TURNS && turn < TURNS_MAX; i += times[i] != 0)
		times[i] = one_turn(words, ++turn);
	cores_end(child);
	if (turn == TURNS_MAX) {
		fprintf(stderr, "floor_wake: the other process is not asleep after %d ns\n",
			PAUSE_NS);
		return 1;
	}
	qsort(times, TURNS, sizeof(*times), compare);
	printf("%lld\n", (long long)times[TURNS / 2]);
	return 0;
}
