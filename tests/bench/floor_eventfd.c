/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor_eventfd - how long it takes to wake a process on another core that sleeps on an eventfd.
 *
 * Two processes take turns: one writes the other's eventfd and sleeps in read() of its own. Half a
 * turn is one way. The median of many rounds. No program that sleeps for a completion can be told
 * faster.
 *
 * Prints nanoseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cores.h"

#define ROUNDS 101
#define TURNS  200u

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void wake(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		fail("floor_eventfd: write");
}

static void sleep_on(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		fail("floor_eventfd: read");
}

static double one_round(const int fds[2])
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned i = 0; i < TURNS; i++) {
		wake(fds[1]);
		sleep_on(fds[0]);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / TURNS / 2;
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static void answer(void *argument)
{
	const int *fds = argument;

	for (;;) {
		sleep_on(fds[1]);
		wake(fds[0]);
	}
}

int main(void)
{
	int fds[2] = { eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC) }, cpu[2];
	double rounds[ROUNDS];
	pid_t child;

	cores_choose(cpu);
	if (fds[0] < 0 || fds[1] < 0)
		fail("floor_eventfd: eventfd");
	child = cores_fork("floor_eventfd", cpu, answer, fds);
	one_round(fds); /* warms up, and waits for the child */
	for (int i = 0; i < ROUNDS; i++)
		rounds[i] = one_round(fds);
	cores_end(child);
	qsort(rounds, ROUNDS, sizeof(*rounds), compare);
	printf("%.0f\n", rounds[ROUNDS / 2]);
	return 0;
}
