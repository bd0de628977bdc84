/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor_line - how long a cache line takes from one process to another, on different cores.
 *
 * Two processes take turns to increment one word of shared memory; half a turn is one way. The
 * median of many rounds. No message between two processes can be faster than this.
 *
 * Prints "CPU CPU NANOSECONDS".
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "cores.h"

#define ROUNDS 301
#define TURNS  1000u /* a round is short beside a time slice: few are interrupted */

struct line {
	_Alignas(128) _Atomic uint32_t turn; /* odd: the child's */
};

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void wait_for(struct line *line, uint32_t turn)
{
	while (atomic_load_explicit(&line->turn, memory_order_acquire) != turn)
		relax();
}

static void answer(void *argument)
{
	struct line *line = argument;

	for (uint32_t turn = 1;; turn += 2) {
		wait_for(line, turn);
		atomic_store_explicit(&line->turn, turn + 1, memory_order_release);
	}
}

static double one_round(struct line *line)
{
	struct timespec start, end;
	uint32_t turn = line->turn;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned i = 0; i < TURNS; i++, turn += 2) {
		atomic_store_explicit(&line->turn, turn + 1, memory_order_release);
		wait_for(line, turn + 2);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / TURNS / 2;
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

int main(void)
{
	struct line *line = mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double rounds[ROUNDS];
	int cpu[2];
	pid_t child;

	cores_choose(cpu);
	if (line == MAP_FAILED || cpu[0] == cpu[1]) {
		fprintf(stderr, "floor_line: needs two CPUs\n");
		return 1;
	}
	child = cores_fork("floor_line", cpu, answer, line);
	one_round(line); /* warms up, and waits for the child */
	for (int i = 0; i < ROUNDS; i++)
		rounds[i] = one_round(line);
	cores_end(child);
	qsort(rounds, ROUNDS, sizeof(*rounds), compare);
	printf("%d %d %.1f\n", cpu[0], cpu[1], rounds[ROUNDS / 2]);
	return 0;
}
