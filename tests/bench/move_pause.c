/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * move_pause - how long threads wait while a region's pages move to the heap and back.
 *
 *     move_pause [MIB...]		64 256 1024
 *
 * One thread is the progress thread (migrate_run); another writes to all of the region, a word a
 * page, over and over. For each direction it prints the whole time; the longest turn of the
 * progress thread, by the clock and in processor time (which a busy machine does not change); the
 * longest store of the writer. Before that it runs the same two threads for a second while nothing
 * moves, which shows how long the machine itself stops them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "memory/hazard.h"
#include "memory/key.h"
#include "memory/key_revoke.h"
#include "memory/migrate.h"

#define PAGE 4096ul
#define SLOT 5
#define HEAP (4ull << 30)

static char *region;
static size_t bytes;
static _Atomic bool stop;
static uint64_t longest_store_ns;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void no_kick(void)
{
}

static void *write_all_over(void *arg)
{
	uint64_t last = clock_ns(CLOCK_MONOTONIC);

	for (size_t at = 0; !stop; at = at + PAGE < bytes ? at + PAGE : 0) {
		uint64_t now;

		++*(volatile uint64_t *)(region + at);
		now = clock_ns(CLOCK_MONOTONIC);
		if (now - last > longest_store_ns)
			longest_store_ns = now - last;
		last = now;
	}
	return arg;
}

/* Runs migrate_run until it has no more to do. */
static void turn(const char *what)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), wall_max = 0, cpu_max = 0, next = 0, end;
	unsigned turns = 0;
	pthread_t writer;

	longest_store_ns = 0;
	stop = false;
	pthread_create(&writer, NULL, write_all_over, NULL);
	do {
		uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		next = migrate_run(wall);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		wall = clock_ns(CLOCK_MONOTONIC) - wall;
		wall_max = wall > wall_max ? wall : wall_max;
		cpu_max = cpu > cpu_max ? cpu : cpu_max;
		turns++;
	} while (next != MIGRATE_NEVER);
	end = clock_ns(CLOCK_MONOTONIC);
	stop = true;
	pthread_join(writer, NULL);
	printf("%5zu MiB %-3s %8.1f ms, %4u turns, longest %7.2f ms (processor %5.2f ms), a store "
	       "%7.2f ms\n",
	       bytes >> 20, what, (double)(end - begin) / 1e6, turns, (double)wall_max / 1e6,
	       (double)cpu_max / 1e6, (double)longest_store_ns / 1e6);
}

static char still[PAGE];

static void nothing_moves(void)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC), last = begin, longest = 0, now;
	pthread_t writer;

	region = still;
	bytes = sizeof(still);
	longest_store_ns = 0;
	stop = false;
	pthread_create(&writer, NULL, write_all_over, NULL);
	do {
		now = clock_ns(CLOCK_MONOTONIC);
		longest = now - last > longest ? now - last : longest;
		last = now;
	} while (now - begin < 1000000000ull);
	stop = true;
	pthread_join(writer, NULL);
	printf("nothing moves  1000.0 ms,             longest %7.2f ms                        a "
	       "store %7.2f ms\n",
	       (double)longest / 1e6, (double)longest_store_ns / 1e6);
}

static bool measure(size_t mib)
{
	struct arena_key *entry;
	uint32_t index, key;
	bool moved;

	bytes = mib << 20;
	region = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (region == MAP_FAILED || key_alloc(&index, &key))
		return false;
	entry = key_entry(index);
	entry->addr = entry->start = (uintptr_t)region;
	entry->length = bytes;
	entry->pd = 1;
	key_publish(index, key);
	migrate_request(key);
	turn("in");
	moved = entry->heap != 0;
	key_revoke(index);
	turn("out");
	key_free(index);
	munmap(region, bytes);
	if (!moved)
		printf("%5zu MiB: stayed where it was\n", mib);
	return moved;
}

int main(int argc, char **argv)
{
	static const char *const usual[] = { "64", "256", "1024" };
	void *arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int heap = memfd_create("bench-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool good = true;

	if (arena == MAP_FAILED || heap < 0 || ftruncate(heap, (off_t)HEAP) ||
	    fcntl(heap, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return 1;
	hazard_init(arena, SLOT);
	key_table_init(arena);
	migrate_init(heap, HEAP, no_kick);
	nothing_moves();
	for (int i = 0; i < (argc > 1 ? argc - 1 : 3); i++)
		good &= measure(strtoul(argc > 1 ? argv[i + 1] : usual[i], NULL, 0));
	return !good;
}
