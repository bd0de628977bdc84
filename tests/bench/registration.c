/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registration - how long ibv_reg_mr and ibv_dereg_mr of much memory take.
 *
 *     registration DEVICE MEBIBYTES
 *
 * The memory was written before. Beside it: the time in which the kernel looks up each of its pages
 * once (MADV_POPULATE_WRITE); an adapter's driver does that, too, and pins them.
 *
 * Prints "REGISTER DEREGISTER PAGES", in microseconds a MiB, medians of some rounds.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "rc.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define ROUNDS 7
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static void fail(const char *what)
{
	fprintf(stderr, "registration: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static struct ibv_pd *open_pd(const char *name)
{
	struct ibv_context *context = rc_open_device(name);

	return context ? ibv_alloc_pd(context) : NULL;
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static double median(double times[ROUNDS])
{
	qsort(times, ROUNDS, sizeof(*times), compare);
	return times[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	size_t mebibytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0, bytes = mebibytes << 20;
	double in[ROUNDS], out[ROUNDS], pages[ROUNDS];
	struct ibv_pd *pd;
	char *memory;

	if (!bytes) {
		fprintf(stderr, "usage: registration DEVICE MEBIBYTES\n");
		return 2;
	}
	pd = open_pd(argv[1]);
	if (!pd)
		fail(argv[1]);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	memset(memory, 1, bytes);
	for (int i = 0; i < ROUNDS; i++) {
		double begin = now_us(), middle, end;
		struct ibv_mr *mr;

		if (madvise(memory, bytes, MADV_POPULATE_WRITE))
			fail("MADV_POPULATE_WRITE");
		pages[i] = now_us() - begin;
		begin = now_us();
		mr = ibv_reg_mr(pd, memory, bytes, ACCESS);
		if (!mr)
			fail("ibv_reg_mr");
		middle = now_us();
		if (ibv_dereg_mr(mr))
			fail("ibv_dereg_mr");
		end = now_us();
		in[i] = middle - begin;
		out[i] = end - middle;
	}
	printf("%.2f %.2f %.2f\n", median(in) / (double)mebibytes, median(out) / (double)mebibytes,
	       median(pages) / (double)mebibytes);
	return 0;
}
