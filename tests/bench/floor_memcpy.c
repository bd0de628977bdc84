/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor_memcpy - how fast one thread copies memory with memcpy, in MiB/s (2^20 bytes a second).
 *
 * The same two buffers of the given size again and again, as a program does that sends the same
 * message again and again. The median of many rounds.
 *
 *     floor_memcpy [BYTES]      prints "MIB/S"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cores.h"

#define ROUNDS	 301
#define ROUND_NS 1000000.0 /* short beside a time slice: few are interrupted */

/* Not inlined: the compiler must not see that the copy is never read. */
__attribute__((noinline)) static void copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" ::"r"(to) : "memory");
}

static double copies_ns(void *to, const void *from, size_t len, unsigned count)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned i = 0; i < count; i++)
		copy(to, from, len);
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void *allocate(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("floor_memcpy: mmap");
		exit(1);
	}
	memset(memory, 1, len);
	return memory;
}

int main(int argc, char **argv)
{
	size_t len = argc > 1 ? strtoull(argv[1], NULL, 0) : 1 << 20;
	double rounds[ROUNDS];
	unsigned count = 1;
	void *from, *to;
	int cpu[2];

	if (len == 0)
		return 2;
	cores_choose(cpu);
	cores_pin(cpu[0]);
	from = allocate(len);
	to = allocate(len);
	copies_ns(to, from, len, count); /* warms up */
	while (copies_ns(to, from, len, count) < ROUND_NS)
		count *= 2;
	for (int i = 0; i < ROUNDS; i++)
		rounds[i] = (double)len * count / (1 << 20) / copies_ns(to, from, len, count) * 1e9;
	qsort(rounds, ROUNDS, sizeof(*rounds), compare);
	printf("%.0f\n", rounds[ROUNDS / 2]);
	return 0;
}
