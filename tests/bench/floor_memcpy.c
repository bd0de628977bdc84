/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floor_memcpy - how fast one thread copies with memcpy what another processor wrote, in MiB/s
 * (2^20 bytes a second).
 *
 * Before each round a thread on the second CPU (cores.h) writes the source, and hands it over by a
 * word of memory; the copy alone is timed, by the first CPU. So the source comes out of another
 * processor's cache, as a message does that was just made, while the destination was last touched
 * by who copies: in perftest's loops nobody reads what arrived. That is the least that has to be
 * done to bring a message from one processor to another, once.
 *
 * Perftest, too, sends one buffer again and again, but fills it once, before it begins. Who copies
 * there, the initiator of a WRITE or READ, the receiver of a SEND, has the source in its own cache
 * from the second message on, and such a loop can be faster than this floor. With `own` nobody
 * writes the source between two copies: as fast as memcpy gets, and what no such loop exceeds that
 * copies once.
 *
 * Of small sizes many are copied at a time, so that the clock costs little beside them; those that
 * another wrote lie one behind the other. The median of many rounds.
 *
 *     floor_memcpy [BYTES [own]]      prints "MIB/S"
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cores.h"

#define ROUNDS_MIN 11
#define ROUNDS_MAX 2001
#define TOTAL_NS   300000000.0 /* of all rounds, if there are enough */
#define ROUND_BYTES                                                                                \
	(64u << 10) /* at least: some microseconds, beside which the clock is nothing              \
		     */

struct source {
	unsigned char *memory; /* of `count` messages, one behind the other; with `own` of one */
	size_t len, count;
	bool own;
	int cpu;			     /* who writes it */
	_Alignas(128) _Atomic uint32_t turn; /* odd: it is being written */
};

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void wait_for(struct source *source, uint32_t turn)
{
	/* HANDOVER: pairs with the release of the other thread; orders what both do to the memory
	 */
	while (atomic_load_explicit(&source->turn, memory_order_acquire) != turn)
		relax();
}

static void hand_over(struct source *source, uint32_t turn)
{
	atomic_store_explicit(&source->turn, turn, memory_order_release); /* HANDOVER */
}

static void *write_source(void *arg)
{
	struct source *source = arg;

	cores_pin(source->cpu);
	for (uint32_t turn = 1;; turn += 2) {
		wait_for(source, turn);
		memset(source->memory, (int)turn, source->len * source->count);
		hand_over(source, turn + 1);
	}
	return NULL;
}

/* Not inlined: the compiler must not see that the copy is never read. */
__attribute__((noinline)) static void copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" ::"r"(to) : "memory");
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double copies_ns(void *to, const struct source *source)
{
	double begin = now_ns();

	for (size_t i = 0; i < source->count; i++)
		copy(to, source->memory + (source->own ? 0 : i * source->len), source->len);
	return now_ns() - begin;
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

/* The median of the rounds, in nanoseconds. */
static double measure(void *to, struct source *source)
{
	static double rounds[ROUNDS_MAX];
	double begin = now_ns();
	size_t count = 0;
	uint32_t turn = 0;

	copies_ns(to, source); /* warms up */
	while (count < ROUNDS_MAX && (count < ROUNDS_MIN || now_ns() - begin < TOTAL_NS)) {
		if (!source->own) {
			hand_over(source, turn + 1);
			wait_for(source, turn += 2);
		}
		rounds[count++] = copies_ns(to, source);
	}
	qsort(rounds, count, sizeof(*rounds), compare);
	return rounds[count / 2];
}

int main(int argc, char **argv)
{
	struct source source = { .len = argc > 1 ? strtoull(argv[1], NULL, 0) : 1 << 20,
				 .own = argc > 2 && !strcmp(argv[2], "own") };
	pthread_t writer;
	double bytes;
	void *to;
	int cpu[2];

	if (source.len == 0 || (argc > 2 && !source.own)) {
		fprintf(stderr, "usage: floor_memcpy [BYTES [own]]\n");
		return 2;
	}
	cores_choose(cpu);
	if (!source.own && cpu[0] == cpu[1]) {
		fprintf(stderr, "floor_memcpy: needs two CPUs\n");
		return 1;
	}
	cores_pin(cpu[0]);
	source.cpu = cpu[1];
	source.count = source.len < ROUND_BYTES ? ROUND_BYTES / source.len : 1;
	source.memory = allocate(source.own ? source.len : source.len * source.count);
	to = allocate(source.len);
	if (!source.own && pthread_create(&writer, NULL, write_source, &source)) {
		fprintf(stderr, "floor_memcpy: no thread\n");
		return 1;
	}
	bytes = (double)source.len * (double)source.count;
	printf("%.0f\n", bytes / (1 << 20) / measure(to, &source) * 1e9);
	return 0; /* the writer ends with it */
}
